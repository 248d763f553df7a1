"""``python -m tests.model``: every world as it should be, then every defect; exits 1 on a violation or a blind spot."""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor

from tests.model.defects import CAUGHT
from tests.model.explore import Walk, explore
from tests.model.stories import violation
from tests.model.table_worlds import TABLE_WORLDS
from tests.model.worlds import WORLDS

ALL = (*WORLDS, *TABLE_WORLDS)


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    parser.add_argument("--world", choices=[world.name for world in ALL], help="this world alone")
    parser.add_argument("--processes", type=int, default=2, help="worlds at a time; one takes up to a gigabyte")
    asked = parser.parse_args()
    worlds = [world for world in ALL if asked.world in (None, world.name)]
    with ProcessPoolExecutor(asked.processes, max_tasks_per_child=1) as pool:
        sound = [_show(walk) for walk in pool.map(explore, worlds)]
        defects = () if asked.world else CAUGHT
        caught = [_show_defect(walk) for walk in pool.map(explore, (CAUGHT[each].world for each in defects), defects)]
    return 0 if all((*sound, *caught)) else 1


def _show(walk: Walk) -> bool:
    figures = f"{walk.states:,} states, {walk.transitions:,} transitions, depth {walk.depth}, {walk.seconds:.0f} CPU s"
    print(f"{walk.world.name}: {figures}", f"  {walk.world.about}", sep="\n")
    print("  " + ", ".join(f"{name} {count:,}" for name, count in walk.taken.items()))
    if walk.violated:
        print(*violation(walk), sep="\n  ")
    if walk.never_taken:
        print(f"  never taken: {', '.join(walk.never_taken)}")
    print(flush=True)
    return not walk.violated and not walk.never_taken


def _show_defect(walk: Walk) -> bool:
    assert walk.defect is not None
    print(f"defect: {walk.defect.value}")
    if not walk.violated:
        print(f"  not found in {walk.states:,} states of the world {walk.world.name!r}: the model is blind", flush=True)
        return False
    print("  " + "\n  ".join(violation(walk)), end="\n\n", flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main())
