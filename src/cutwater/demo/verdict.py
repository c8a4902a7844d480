"""Is the output what it would have been without the crashes?"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Verdict:
    """The committed output, compared with the failure-free count."""

    expected_total: int
    counted_total: int
    words: int
    words_too_high: int
    words_too_low: int
    repeated_rows: int
    missing_rows: int

    @property
    def exact(self) -> bool:
        """Every word has its count, and every step to it is there exactly once."""
        return not (self.words_too_high or self.words_too_low or self.repeated_rows or self.missing_rows)


def judge(output: Path, expected: Counter[str]) -> Verdict:
    """Reads every committed file. The job writes each new count of a word, so a word seen n times has rows 1 to n."""
    rows: dict[str, Counter[int]] = defaultdict(Counter)
    for path in sorted(output.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            rows[row["word"]][row["count"]] += 1
    reached = {word: max(counts) for word, counts in rows.items()}
    repeated = sum(times - 1 for counts in rows.values() for times in counts.values())
    missing = sum(max(0, total - len(rows[word])) for word, total in expected.items())
    return Verdict(
        expected_total=expected.total(),
        counted_total=sum(reached.values()),
        words=len(expected),
        words_too_high=sum(reached.get(word, 0) > total for word, total in expected.items()),
        words_too_low=sum(reached.get(word, 0) < total for word, total in expected.items()),
        repeated_rows=repeated,
        missing_rows=missing,
    )
