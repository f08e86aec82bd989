"""From ginkgo's reports to one table: suite, specs, passed, and the cause of every spec that did not pass."""

import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
RESULTS = HERE.parent / "RESULTS.md"
BEGIN, END = "<!-- conformance: written by `make conformance` -->", "<!-- end of conformance -->"


@dataclass(frozen=True)
class Cause:
    """Why a spec does not pass here. `kind`: product, local AWS, local cluster or not applicable."""

    suite: str
    spec: str
    kind: str
    why: str
    # Not even run, because it would only wait.
    skip: bool = False

    def explains(self, suite: str, spec: str) -> bool:
        return suite == self.suite and re.search(self.spec, spec) is not None


@dataclass
class Row:
    suite: str
    specs: int = 0
    passed: int = 0
    seconds: float = 0
    # (cause, specs) in the order of their appearance
    explained: dict[Cause, int] = field(default_factory=dict)
    unexplained: list[str] = field(default_factory=list)
    # Left out by --focus.
    not_asked: int = 0


def read_causes(file: Path = HERE / "causes.toml") -> list[Cause]:
    return [Cause(**entry) for entry in tomllib.loads(file.read_text())["cause"]]


def text_of(spec: dict) -> str:
    return " ".join([*(spec.get("ContainerHierarchyTexts") or []), spec.get("LeafNodeText", "")])


def judge(suite: str, specs: list[dict], causes: list[Cause]) -> Row:
    row = Row(suite)
    for spec in specs:
        if spec.get("LeafNodeType") != "It":
            continue
        row.specs += 1
        row.seconds += spec.get("RunTime", 0) / 1e9
        state, text = spec.get("State", ""), text_of(spec)
        if state == "passed":
            row.passed += 1
            continue
        cause = next((cause for cause in causes if cause.explains(suite, text)), None)
        if cause:
            row.explained[cause] = row.explained.get(cause, 0) + 1
        elif state in ("skipped", "pending"):
            row.not_asked += 1
        else:
            first = (spec.get("Failure") or {}).get("Message", "").strip().splitlines()
            row.unexplained.append(f"{text}: {first[0] if first else state}")
    return row


def table(rows: list[Row]) -> str:
    lines = ["| suite | specs | passed | seconds | not passed, and why |", "|---|---|---|---|---|"]
    for row in rows:
        why = [f"{count} {cause.kind}: {cause.why}" for cause, count in row.explained.items()]
        why += [f"**{text}**" for text in row.unexplained]
        why += [f"{row.not_asked} skipped by the suite or not asked for"] if row.not_asked else []
        cell = "; ".join(why).replace("|", "\\|")
        lines.append(f"| {row.suite} | {row.specs} | {row.passed} | {row.seconds:.0f} | {cell} |")
    return "\n".join(lines)


def write(text: str, file: Path = RESULTS) -> None:
    """Replaces the table between the two marks; rows of suites that did not run stay as they are."""
    before, mark, rest = file.read_text().partition(BEGIN)
    old, end, after = rest.partition(END)
    if not mark or not end:
        raise SystemExit(f"{file} lacks the marks {BEGIN} and {END}")
    head, rows = text.splitlines()[:2], by_suite(old) | by_suite(text)
    table = "\n".join([*head, *(rows[suite] for suite in sorted(rows))])
    file.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}")


def by_suite(table: str) -> dict[str, str]:
    lines = [line for line in table.splitlines() if line.startswith("| ")]
    return {line.split("|")[1].strip(): line for line in lines if not line.startswith("| suite")}
