"""Picking objects: by a click, a rectangle or a word; more of one, less of one, none."""

from typing import Any

import torch

from ..errors import InputError
from . import words
from .panel import GROW, NONE, STAY
from .part import Part, Wired


class Picking(Part):
    """What a click and the folder "Objects" do."""

    def updates(self) -> Wired:
        """See :class:`Part`."""
        return ((self.page.panel.objects, self.on_select),)

    def clicks(self) -> Wired:
        """See :class:`Part`."""
        p = self.page.panel
        return (
            (p.add, self.on_add), (p.rectangle, self.on_rectangle), (p.resize, self.on_resize),
            (p.leave, self.on_leave),
        )  # fmt: skip

    def on_click(self, event: Any) -> None:
        """Pick what is under the pointer; or kick it while it is live, or mark the floor."""
        page, session = self.page, self.page.open_session
        ray = event.ray_origin, event.ray_direction
        if page.grounding.waiting:
            page.grounding.mark(*ray)
        elif page.playing.player.mode == "live":
            index = session.kick(*ray, page.panel.strength.value)
            page.say(f"kicked object {index} at {session.time:.2f} s")
        else:
            page.stop()
            page.say("looking what is there ...")
            self.add(session.point(*ray))

    def on_shift_click(self, event: Any) -> None:
        """What is under the pointer belongs to the selected object."""
        page, session = self.page, self.page.open_session
        if page.selected is None or page.playing.player.mode == "live":
            self.on_click(event)
            return
        page.stop()
        page.say("looking what is there ...")
        word = session.point(event.ray_origin, event.ray_direction)
        session.join(page.selected, word)
        self._told(page.selected)

    def on_add(self, event: Any) -> None:
        """Pick by a word."""
        word = self.page.panel.word.value.strip() or "auto"
        words.refuse_files(word)
        self.add(word)

    def add(self, word: str) -> None:
        """Pick an object, or select it where it is picked already."""
        page, session = self.page, self.page.open_session
        page.stop()
        page.say(f"taking {word} out of the scene ...")
        self._point_out(word)
        try:
            index = session.pick(word)
        except InputError:
            page.view.show(session)  # as it was
            raise
        self._told(index)

    def _point_out(self, word: str) -> None:
        """Tint at once what will be picked: to take it out lasts a second or two."""
        there = [push.select for push in self.page.open_session.recipe.pushes]
        if word not in there and word not in ("auto", "all"):
            self.page.view.point_out(self.page.open_session.mask(word))

    def _told(self, index: int) -> None:
        """Show an object that was picked or changed, and count it."""
        page, stage = self.page, self.page.open_session.ready.stage
        page.reshow(index)
        count = int((stage.scene.ids == index).sum())
        page.say(f"object {index}: {stage.names[index]}; {count:,} Gaussians move")

    def on_resize(self, event: Any) -> None:
        """More of what is around, or less."""
        index = self.page.require_selected()
        self.page.stop()
        self.page.open_session.grow(index, 1 if self.page.panel.resize.value == GROW else -1)
        self._told(index)

    def on_rectangle(self, event: Any) -> None:
        """Wait for one rectangle."""
        _ = self.page.open_session
        self.page.say("draw a rectangle around objects")
        scene = self.page.server.scene

        def drawn(rectangle: Any) -> None:
            scene.remove_rect_select_callback(handler)
            self.add_within(rectangle)

        handler = self.page.guarded(drawn)
        scene.on_rect_select()(handler)

    def add_within(self, rectangle: Any) -> None:
        """Pick the objects in a rectangle of a tab's picture."""
        camera = self.page.taking.camera(rectangle.client)
        size = torch.tensor([camera.width, camera.height])
        low, high = (
            (torch.tensor(x) * size).tolist() for x in (rectangle.screen_min, rectangle.screen_max)
        )
        for word in self.page.open_session.within(camera, low, high):
            self.add(word)

    def on_select(self, event: Any) -> None:
        """Another object was selected."""
        number = self.page.panel.objects.value
        self.page.refresh(None if number == NONE else int(number.split(":")[0]))

    def on_leave(self, event: Any) -> None:
        """The selected object is scenery again, or all is as it was before the last step."""
        page, session = self.page, self.page.open_session
        page.stop()
        if page.panel.leave.value == STAY:
            session.drop(page.require_selected())
        else:
            session.undo()
        page.reshow(page.selected)
        page.say(f"{len(session.recipe.pushes)} objects picked")
