"""Rules that catch documented mistakes of recipes; pure, from a recipe and what is known.

Each is a `Rule` of one module by topic; `judge` runs them all. `docs/recipe-rules.md` lists them.
"""

from sparkfleet.recipes.rules.judging import RULES, Judged, judge
from sparkfleet.recipes.rules.subject import Known, Subject, subject

__all__ = ["RULES", "Judged", "Known", "Subject", "judge", "subject"]
