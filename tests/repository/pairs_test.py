#!/usr/bin/env python3
"""Tests of tools/peers/pairs.py with contestants whose speeds are made up."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tools/peers"))
import pairs


def quiet() -> tuple:
    return 0, 0


def turns(*figures):
    """A contestant that measures these, one after the other, and fails where it is asked once more."""
    remaining = iter(figures)
    return lambda: next(remaining)


class Pairs(unittest.TestCase):
    def test_compare_with_the_best_peer_of_the_same_pair(self):
        result = pairs.run_pairs({"us": turns(20, 30, 40), "a": turns(10, 10, 8), "b": turns(8, 15, 10)}, 3, "us",
                                 ticks=quiet)
        self.assertEqual(result["ratio"], 2)
        self.assertEqual(result["engines"]["us"], {"median": 30, "p10": 22, "p90": 38, "left_out": False})

    def test_leave_out_a_peer_that_stayed_far_behind_in_two_pairs(self):
        result = pairs.run_pairs({"us": turns(1, 1, 1), "slow": turns(6.9, 6.9), "best": turns(10, 10, 10)}, 3, "us",
                                 ticks=quiet)
        self.assertTrue(result["engines"]["slow"]["left_out"])
        self.assertEqual([len(pair["figures"]) for pair in result["raw"]], [3, 3, 2])

    def test_keep_a_peer_that_came_near_in_one_of_the_two(self):
        result = pairs.run_pairs({"us": turns(1, 1, 1), "a": turns(7, 1, 1), "best": turns(10, 10, 10)}, 3, "us",
                                 ticks=quiet)
        self.assertFalse(result["engines"]["a"]["left_out"])

    def test_never_leave_out_ourselves_or_the_only_peer(self):
        result = pairs.run_pairs({"us": turns(1, 1, 1), "a": turns(10, 10, 10)}, 3, "us", ticks=quiet)
        self.assertEqual(result["ratio"], 0.1)

    def test_take_the_smaller_figure_as_the_better_one_where_times_are_measured(self):
        result = pairs.run_pairs({"us": turns(100, 100, 100), "a": turns(200, 200, 200), "slow": turns(400, 400)}, 3,
                                 "us", less_is_better=True, ticks=quiet)
        self.assertEqual(result["ratio"], 2)
        self.assertTrue(result["engines"]["slow"]["left_out"])

    def test_drop_pairs_whose_processors_were_stolen(self):
        clock = turns((0, 0), (100, 11), (100, 11), (200, 11))
        result = pairs.run_pairs({"us": turns(1, 3), "a": turns(1, 1)}, 2, "us", ticks=clock)
        self.assertEqual((result["pairs"], result["dropped"], result["ratio"]), (1, 1, 3))

    def test_say_so_where_every_pair_was_disturbed(self):
        result = pairs.run_pairs({"us": turns(1), "a": turns(1)}, 1, "us", ticks=turns((0, 0), (10, 10)))
        self.assertEqual((result["pairs"], result["dropped"]), (0, 1))
        self.assertNotIn("engines", result)


if __name__ == "__main__":
    unittest.main()
