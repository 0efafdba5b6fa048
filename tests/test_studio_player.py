"""The studio's clock, on a time of its own."""

import threading

import pytest

from newtongs.studio import player as module
from newtongs.studio.player import CATCH_UP, Player


class Clock:
    """Time that passes only by sleeping and by working."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def run(monkeypatch, cost: float, mode: str, until: float = 10.0) -> tuple[float, list[float]]:
    """Seconds gone, and what a player called with when every call takes ``cost`` a step."""
    clock, calls, ended = Clock(), [], threading.Event()
    monkeypatch.setattr(module, "time", clock)

    def work(amount):
        calls.append(amount)
        clock.now += cost * (amount if mode == "live" else 1)
        if clock.now >= until:
            player.set("still")
            ended.set()

    player = Player(work, work)
    player.set(mode)
    assert ended.wait(20)
    player.close()
    return clock.now, calls


@pytest.mark.parametrize("milliseconds", [0, 5, 12, 15])
def test_sixty_steps_a_second_as_long_as_there_is_time_for_them(monkeypatch, milliseconds):
    seconds, steps = run(monkeypatch, milliseconds / 1000, "live")
    assert sum(steps) / seconds == pytest.approx(60, abs=0.5)


def test_what_is_too_late_is_left_out_and_others_have_a_turn(monkeypatch):
    seconds, steps = run(monkeypatch, 0.025, "live")
    assert max(steps) == CATCH_UP
    assert 0.95 / 0.025 < sum(steps) / seconds < 1 / 0.025


def test_what_a_live_run_left_does_not_hurry_the_playing(monkeypatch):
    """The mode goes from live to play between two ticks, nine tenths of a step owed."""
    clock, played, ended = Clock(), [], threading.Event()
    monkeypatch.setattr(module, "time", clock)

    def step(steps):
        clock.now += 1.9 / 60
        if clock.now > 1:
            player.mode = "play"

    def play(gone):
        played.append(gone)
        if sum(played) > 2:
            player.set("still")
            ended.set()

    player = Player(play, step)
    player.set("live")
    assert ended.wait(20)
    player.close()
    assert len(played) < 2.1 * 60


def test_playing_is_told_the_time_that_has_gone(monkeypatch):
    seconds, gone = run(monkeypatch, 0.004, "play")
    assert sum(gone) == pytest.approx(seconds, abs=0.02)
    assert len(gone) / seconds == pytest.approx(60, abs=1)
