"""Pick objects by click, rectangle or selector; grow, shrink, deselect, undo."""

from typing import Any

import torch

from ..base.errors import InputError
from .controls import Controls, Wired
from .panel import DESELECT, GROW, NONE, WHOLE
from .recipe import refuse_files


class Picking(Controls):
    """Clicks in the scene, and the folder "Objects"."""

    def updates(self) -> Wired:
        """See :class:`Controls`."""
        return ((self.page.panel.objects, self.on_select),)

    def clicks(self) -> Wired:
        """See :class:`Controls`."""
        p = self.page.panel
        return (
            (p.add, self.on_add), (p.rectangle, self.on_rectangle), (p.resize, self.on_resize),
            (p.level, self.on_level),
            (p.deselect, self.on_deselect),
        )  # fmt: skip

    def on_click(self, event: Any) -> None:
        """Pick the object under the pointer, kick it in a live run, or mark the floor."""
        page, session = self.page, self.page.open_session
        ray = event.ray_origin, event.ray_direction
        if page.floor_panel.waiting:
            page.floor_panel.mark(*ray)
        elif page.playing.player.mode == "live":
            index = session.kick(*ray, page.panel.strength.value)
            page.inform(f"kicked object {index} at {session.time:.2f} s")
        else:
            page.stop()
            page.inform("looking for an object ...")
            self.add_or_enlarge(session.point(*ray))

    def add_or_enlarge(self, selector: str) -> None:
        """Pick an object; if it is the selected one already, take the next larger whole."""
        page, session = self.page, self.page.open_session
        index = session.holding(selector)
        if index is None:
            self.add(selector)
        elif index != page.selected or not selector.startswith("cluster"):
            self._report(index)
        else:
            session.larger(index)
            self._report(index)

    def on_shift_click(self, event: Any) -> None:
        """Add what is under the pointer to the selected object."""
        page, session = self.page, self.page.open_session
        if page.selected is None or page.playing.player.mode == "live":
            self.on_click(event)
            return
        page.stop()
        page.inform("looking for an object ...")
        selector = session.point(event.ray_origin, event.ray_direction)
        session.join(page.selected, selector)
        self._report(page.selected)

    def on_add(self, event: Any) -> None:
        """Pick by selector."""
        selector = self.page.panel.selector.value.strip() or "auto"
        refuse_files(selector)
        self.add(selector)

    def add(self, selector: str) -> None:
        """Pick an object, or select it if it is already picked."""
        page, session = self.page, self.page.open_session
        page.stop()
        page.inform(f"extracting {selector} from the scene ...")
        self._highlight(selector)
        try:
            index = session.pick(selector)
        except InputError:
            page.view.show(session)  # remove the tint
            raise
        self._report(index)

    def _highlight(self, selector: str) -> None:
        """Tint what will be picked at once, because extracting it takes a second or two."""
        picked = [push.select for push in self.page.open_session.recipe.pushes]
        if selector not in picked and selector not in ("auto", "all"):
            self.page.view.highlight(self.page.open_session.mask(selector))

    def _report(self, index: int) -> None:
        """Show an object that was picked or changed, and report its size."""
        page, layout = self.page, self.page.open_session.setup.layout
        page.reshow(index)
        count = int((layout.scene.ids == index).sum())
        page.inform(f"object {index}: {layout.names[index]}; {count:,} Gaussians move")

    def on_resize(self, event: Any) -> None:
        """Grow or shrink the selected object."""
        index = self.page.require_selected()
        self.page.stop()
        self.page.open_session.grow(index, 1 if self.page.panel.resize.value == GROW else -1)
        self._report(index)

    def on_level(self, event: Any) -> None:
        """Take the larger whole around the selected object, or the part last clicked."""
        self._step(self.page.panel.level.value == WHOLE)

    def on_larger(self, event: Any) -> None:
        """The same by a key."""
        self._step(True)

    def on_smaller(self, event: Any) -> None:
        """The same by a key."""
        self._step(False)

    def _step(self, up: bool) -> None:
        index, session = self.page.require_selected(), self.page.open_session
        self.page.stop()
        (session.larger if up else session.smaller)(index)
        self._report(index)

    def on_rectangle(self, event: Any) -> None:
        """Wait for the user to draw a rectangle."""
        _ = self.page.open_session
        self.page.inform("draw a rectangle around objects")
        scene = self.page.server.scene

        def drawn(rectangle: Any) -> None:
            scene.remove_rect_select_callback(handler)
            self.add_within(rectangle)

        handler = self.page.guarded(drawn)
        scene.on_rect_select()(handler)

    def add_within(self, rectangle: Any) -> None:
        """Pick the objects in a rectangle of a tab's picture."""
        camera = self.page.export_panel.camera(rectangle.client)
        size = torch.tensor([camera.width, camera.height])
        low, high = (
            (torch.tensor(x) * size).tolist() for x in (rectangle.screen_min, rectangle.screen_max)
        )
        for selector in self.page.open_session.within(camera, low, high):
            self.add(selector)

    def on_select(self, event: Any) -> None:
        """Another object was selected in the list."""
        number = self.page.panel.objects.value
        self.page.refresh(None if number == NONE else int(number.split(":")[0]))

    def on_deselect(self, event: Any) -> None:
        """Make the selected object part of the scene again, or undo the last step."""
        page, session = self.page, self.page.open_session
        page.stop()
        if page.panel.deselect.value == DESELECT:
            session.drop(page.require_selected())
        else:
            session.undo()
        page.reshow(page.selected)
        page.inform(f"{len(session.recipe.pushes)} objects picked")
