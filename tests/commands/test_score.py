"""`nmt score`: reports of files, and refusals."""

import csv
import io
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from urllib.error import URLError

import pytest
from sacrebleu.dataset import DATASETS
from sacrebleu.metrics import CHRF

from nmt.commands.score import STANDARD_INPUT, ScoreOptions, score, short_names
from nmt.errors import ConfigError, DataError
from nmt.evaluation.metrics import Score, measure
from nmt.evaluation.score_report import ScoreReport
from nmt.text.languages import target_language

HYPOTHESES = ["Il gatto dorme sul tappeto.", "Domani andiamo al mare insieme.", "Non lo so affatto."]
REFERENCES = ["Il gatto dorme sopra il tappeto.", "Domani andiamo tutti al mare.", "Non lo so per niente."]


@pytest.fixture
def hyp(tmp_path: Path) -> Path:
    return write(tmp_path / "hyp.it", HYPOTHESES)


@pytest.fixture
def ref(tmp_path: Path) -> Path:
    return write(tmp_path / "ref.it", REFERENCES)


def write(path: Path, lines: list[str]) -> Path:
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return path


def scores_of(report: ScoreReport) -> tuple[Score, ...]:
    return report.systems[0].scores


def test_score_returns_a_report(hyp: Path, ref: Path) -> None:
    report = score(hyp, [ref])
    assert report.lines == 3
    assert [entry.name for entry in scores_of(report)] == ["BLEU", "chrF2"]
    assert scores_of(report)[0] == measure("bleu", HYPOTHESES, [REFERENCES], target_language("it")).score()
    assert scores_of(report)[1] == measure("chrf", HYPOTHESES, [REFERENCES], target_language("it")).score()
    assert report.warnings == ()
    assert report.systems[0].comparisons == ()
    assert report.language.notice is not None


def test_language_is_given_or_recognised(tmp_path: Path) -> None:
    hyp, ref = write(tmp_path / "hyp", ["他没有来。"]), write(tmp_path / "ref", ["她昨天没有来。"])
    found, named = score(hyp, [ref]), score(hyp, [ref], ScoreOptions(target_language="zh-CN"))
    assert scores_of(found) == scores_of(named)
    assert "tok:zh" in scores_of(named)[0].signature
    assert (found.language.origin, named.language.origin) == ("detected", "given")
    assert "text looks Chinese: BLEU tokenizer zh; --target-lang to choose" in (found.language.notice or "")
    assert named.language.notice is None


def test_standard_input_is_read(hyp: Path, ref: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(hyp.read_bytes())))
    assert scores_of(score(STANDARD_INPUT, [ref])) == scores_of(score(hyp, [ref]))


def test_standard_input_for_two_texts_is_refused(hyp: Path) -> None:
    with pytest.raises(ConfigError, match=r"standard input can be read only once, but - names two texts; name a file"):
        score(STANDARD_INPUT, [STANDARD_INPUT])
    with pytest.raises(ConfigError, match=r"standard input can be read only once"):
        score(hyp, [STANDARD_INPUT], ScoreOptions(source=STANDARD_INPUT))


def test_pipes_are_read(hyp: Path, ref: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=[ref.read_bytes()])
    writer.start()
    assert scores_of(score(hyp, [pipe])) == scores_of(score(hyp, [ref]))
    writer.join()


@pytest.mark.parametrize("option", ["reference", "source", "baseline"])
def test_files_of_another_length_are_refused(hyp: Path, ref: Path, tmp_path: Path, option: str) -> None:
    short = write(tmp_path / "short", REFERENCES[:2])
    references, others = ([short], {}) if option == "reference" else ([ref], {option: short})
    with pytest.raises(DataError) as caught:
        score(hyp, references, ScoreOptions(**others))
    assert str(caught.value) == (
        f"{hyp} has 3 lines, but {short} has 2; line n of one must belong to line n of the other"
    )


def test_surplus_of_empty_lines_is_reported(hyp: Path, ref: Path, tmp_path: Path) -> None:
    longer = write(tmp_path / "longer", [*REFERENCES, "", ""])
    with pytest.raises(DataError, match=f"hyp.it has 3 lines, but {longer} has 5; the last 2 of {longer} are empty"):
        score(hyp, [longer])
    with pytest.raises(DataError, match=f"the last 2 of {longer} are empty: remove them"):
        score(longer, [ref])


def test_equal_file_names_have_their_folders() -> None:
    assert list(short_names([Path("a/x"), Path("b/y")]).values()) == ["x", "y"]
    assert list(short_names([Path("a/x"), Path("b/x")]).values()) == ["a/x", "b/x"]


def test_empty_and_missing_files_are_refused(hyp: Path, ref: Path, tmp_path: Path) -> None:
    empty = write(tmp_path / "empty", [])
    with pytest.raises(DataError, match=f"{empty}: empty, expected one sentence per line"):
        score(empty, [ref])
    with pytest.raises(DataError, match=f"{empty}: empty"):
        score(hyp, [empty])
    with pytest.raises(DataError, match="nowhere"):
        score(hyp, [tmp_path / "nowhere"])


def test_unknown_metric_is_refused(hyp: Path, ref: Path) -> None:
    with pytest.raises(
        ConfigError,
        match=r"--metric rouge: no such metric, expected one of bleu, chrf, chrf\+\+, ter; docs",
    ):
        score(hyp, [ref], ScoreOptions(metrics=("bleu", "rouge")))


def test_warnings_come_from_all_files(tmp_path: Path, ref: Path) -> None:
    source = write(tmp_path / "source", ["The cat sleeps.", "Tomorrow.", "I do not know."])
    empty = write(tmp_path / "empty", ["", "", ""])
    report = score(empty, [ref], ScoreOptions(source=source, baseline=source))
    assert report.warnings == (
        f"{empty}: faults in 3 lines: empty 3; --sentences FILE lists them",
        f"{source}: faults in 3 lines: copy 3; --sentences FILE lists them",
    )
    assert scores_of(report)[0].value == 0


def test_json_contains_the_whole_report(hyp: Path, ref: Path) -> None:
    report = score(hyp, [ref], ScoreOptions(confidence=True, baseline=ref, target_language="it"))
    document = json.loads(report.as_json())
    assert document["lines"] == 3
    assert document["language"] == {"code": "it", "found": "given", "tokenizer": "13a"}
    assert document["scores"][0]["name"] == "BLEU"
    assert document["scores"][0]["value"] == scores_of(report)[0].value
    assert set(document["scores"][0]["confidence"]) == {"mean", "margin"}
    assert document["scores"][0]["comparison"]["baseline"] == pytest.approx(100)
    assert document["scores"][0]["comparison"]["difference"] == pytest.approx(scores_of(report)[0].value - 100)
    assert document["warnings"] == [f"{ref} is the reference, word for word"]


def test_text_has_a_table_of_scores_and_the_signatures(hyp: Path, ref: Path) -> None:
    report = score(hyp, [ref], ScoreOptions(metrics=("bleu", "ter"), confidence=True))
    bleu, ter = scores_of(report)
    assert bleu.confidence is not None
    assert ter.confidence is not None
    assert report.as_text().split("\n") == [
        f"BLEU                   {bleu.value:.2f} ± {bleu.confidence.margin:.2f}",
        f"TER (lower is better)  {ter.value:.2f} ± {ter.confidence.margin:.2f}",
        "",
        f"BLEU  {bleu.signature}",
        f"TER   {ter.signature}",
    ]


def test_several_systems_are_compared_with_the_baseline_in_words(tmp_path: Path) -> None:
    references = [f"il gatto numero {word} dorme sul tappeto rosso" for word in "abcdefghijklmnopqrst"]
    ref = write(tmp_path / "ref", references)
    good = write(tmp_path / "good", [*references[:19], "il gatto"])
    same = write(tmp_path / "same", [line.replace("dorme", "sta") for line in references])
    bad = write(tmp_path / "bad", [line.replace("gatto numero", "cane") for line in references])
    options = ScoreOptions(metrics=("chrf", "ter"), systems=(same, bad), baseline=same)
    report = score(good, [ref], options)
    table, signatures = report.as_text().split("\n\n")
    assert signatures.splitlines()[0] == f"chrF2  {report.systems[0].comparisons[0].signature}"
    rows = table.splitlines()
    value, base = f"{scores_of(report)[0].value:.2f}", report.systems[-1].scores[0].value
    difference = f"{scores_of(report)[0].value - base:+.2f}"
    assert rows[0].split() == ["chrF2", "good", value, difference, "better", "(p", "=", "0.001)"]
    assert rows[1].split()[3] == "worse"
    assert rows[2].split() == ["same", f"{base:.2f}", "baseline"], "once, though it is also a system"
    assert rows[3].startswith("TER (lower is better)  good  ")
    assert "better (p" in rows[3]
    document = json.loads(report.as_json())
    assert [system["name"] for system in document["systems"]] == ["good", "bad", "same"]
    assert document["scores"][0]["comparison"]["verdict"] == "better"


def test_faults_are_counted_without_references(hyp: Path, tmp_path: Path) -> None:
    source = write(tmp_path / "source.en", ["The cat sleeps on 358 carpets.", HYPOTHESES[1], "I do not know."])
    report = score(hyp, [], ScoreOptions(source=source, sentences=tmp_path / "lines.tsv"))
    assert [line.split() for line in report.as_text().splitlines()] == [["copy", "1"], ["number", "1"]]
    assert json.loads(report.as_json())["scores"] == []
    rows = (tmp_path / "lines.tsv").read_text().splitlines()
    assert rows[0].split("\t") == ["line", "system", "faults", "hypothesis", "source"]
    assert [row.split("\t")[2].split(" ")[0] for row in rows[1:]] == ["number", "copy", ""]
    faults = ScoreOptions(source=source)
    for options in faults._replace(metrics=["ter"]), faults._replace(confidence=True), faults._replace(by_length=True):
        with pytest.raises(ConfigError, match="expected references to score against, or --source without --metric"):
            score(hyp, [], options)


def test_test_set_gives_references_source_and_language(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that sacreBLEU has fetched before needs no network."""
    hyp = write(tmp_path / "hyp", ["我爱你。"])
    monkeypatch.setattr(DATASETS["wmt20"], "_outdir", str(tmp_path))
    monkeypatch.setattr(DATASETS["wmt20"], "_rawdir", str(tmp_path / "raw"))

    def unreachable(*_: object) -> None:
        raise URLError("no network")

    monkeypatch.setattr("urllib.request.urlopen", unreachable)
    with pytest.raises(
        DataError, match=r"--test-set wmt20/en-zh: sacreBLEU: .*no network.*; .* first use needs a network"
    ):
        score(hyp, [], ScoreOptions(test_set="wmt20/en-zh"))
    for field in ("docid", "genre", "origlang", "src"):
        write(tmp_path / f"wmt20.en-zh.{field}", ["I love you."])
    ref = write(tmp_path / "wmt20.en-zh.ref", ["我喜欢你。"])
    report = score(hyp, [], ScoreOptions(test_set="wmt20/en-zh"))
    assert scores_of(report) == scores_of(score(hyp, [ref], ScoreOptions(target_language="zh")))
    for name in ("wmt20/en-it", "wmt1/en-zh", "wmt20"):
        with pytest.raises(
            DataError, match=f"--test-set {name}: sacreBLEU: No such .* sacrebleu --list shows the names"
        ):
            score(hyp, [], ScoreOptions(test_set=name))
    with pytest.raises(ConfigError, match="leave out REF and --source"):
        score(hyp, [ref], ScoreOptions(test_set="wmt20/en-zh"))


def test_lines_are_scored_by_length(tmp_path: Path) -> None:
    short, long = ["sì certo", "no"], ["il gatto nero dorme sul tappeto rosso", "il gatto dorme"]
    hyp, ref = write(tmp_path / "hyp", [short[1], *long]), write(tmp_path / "ref", [short[0], *long])
    report = score(hyp, [ref], ScoreOptions(metrics=("chrf",), by_length=True))
    assert [(bucket.name, len(bucket.lines)) for bucket in report.buckets] == [("1–5", 2), ("6–10", 1)]
    expected = measure("chrf", [short[1], long[1]], [[short[0], long[1]]], target_language("it")).score().value
    assert report.systems[0].by_length == ((pytest.approx(expected), 100),)
    source = write(tmp_path / "source", ["a " * 61, "b", "c"])
    report = score(hyp, [ref], ScoreOptions(metrics=("chrf",), by_length=True, source=source))
    table = report.as_text().split("\n\n")[1].splitlines()
    assert [re.split("  +", line) for line in table[:2]] == [
        ["by words of the source", "1–5", "> 60"],
        ["lines", "2", "1"],
    ]
    assert table[2].startswith("chrF2  ")
    assert json.loads(report.as_json())["scores"][0]["by_length"][1]["lines"] == 1


def test_scores_and_faults_of_single_lines_are_written(ref: Path, tmp_path: Path) -> None:
    bad = write(tmp_path / "bad", ["Il gatto dorme sul тappeto.", "no no no no no no", REFERENCES[2]])
    listed = tmp_path / "lines.tsv"
    report = score(bad, [ref], ScoreOptions(metrics=("chrf", "ter"), systems=(ref,), sentences=listed))
    assert report.warnings[0] == f"{bad}: faults in 2 lines: repetition 1, script 1; see {listed}"
    assert json.loads(report.as_json())["findings"] == {"script": 1, "repetition": 1}
    with listed.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    assert list(rows[0]) == ["line", "system", "chrF2", "TER", "faults", "hypothesis", "reference"]
    assert [(row["line"], row["system"]) for row in rows[:3]] == [("1", str(bad)), ("1", str(ref)), ("2", str(bad))]
    assert [row["faults"] for row in rows[::2]] == ["script Cyrillic: т", "repetition no × 6", ""]
    chrf = CHRF().sentence_score("no no no no no no", [REFERENCES[1]]).score
    assert float(rows[2]["chrF2"]) == pytest.approx(chrf, abs=1e-3)
    assert (rows[2]["hypothesis"], rows[2]["reference"]) == ("no no no no no no", REFERENCES[1])


def test_outputs_that_would_replace_an_input_are_refused(hyp: Path, ref: Path) -> None:
    with pytest.raises(ConfigError, match=r"ref\.it"):
        score(hyp, [ref], ScoreOptions(sentences=ref))
    assert ref.read_text(encoding="utf-8").splitlines() == REFERENCES


def test_unknown_target_language_is_refused_with_the_known_ones(hyp: Path, ref: Path) -> None:
    with pytest.raises(ConfigError, match=r"^--target-lang xx: unknown language code, expected one of af am .* zh zu$"):
        score(hyp, [ref], ScoreOptions(target_language="xx"))
    assert score(hyp, [ref], ScoreOptions(target_language="ita_Latn")).language.code == "it"


def test_importing_score_imports_no_large_package(repository: Path) -> None:
    program = "import nmt.commands.score, sys; print([m for m in ('torch', 'numpy', 'sacrebleu') if m in sys.modules])"
    command = [sys.executable, "-c", program]
    assert subprocess.run(command, cwd=repository, check=True, capture_output=True, text=True).stdout.strip() == "[]"
