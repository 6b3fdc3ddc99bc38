"""`nmt score`: reports of files, and refusals."""

import io
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from sacrebleu.metrics import CHRF

from nmt.commands.score import STANDARD_INPUT, ScoreOptions, score
from nmt.errors import ConfigError, DataError
from nmt.evaluation.metrics import measure
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


def test_score_returns_a_report(hyp: Path, ref: Path) -> None:
    report = score(hyp, [ref])
    assert report.lines == 3
    assert [entry.name for entry in report.scores] == ["BLEU", "chrF2"]
    assert report.scores[0] == measure("bleu", HYPOTHESES, [REFERENCES], target_language("it")).score()
    assert report.scores[1] == measure("chrf", HYPOTHESES, [REFERENCES], target_language("it")).score()
    assert report.warnings == ()
    assert report.comparisons == ()
    assert report.language.notice is not None


def test_several_references_are_used(hyp: Path, ref: Path) -> None:
    report = score(hyp, [ref, hyp])
    assert report.scores[0].value == pytest.approx(100)
    assert report.warnings == (f"{hyp} is the reference, word for word",)


def test_language_is_given_or_recognised(tmp_path: Path) -> None:
    hyp, ref = write(tmp_path / "hyp", ["他没有来。"]), write(tmp_path / "ref", ["她昨天没有来。"])
    found, named = score(hyp, [ref]), score(hyp, [ref], ScoreOptions(target_language="zh-CN"))
    assert found.scores == named.scores
    assert "tok:zh" in named.scores[0].signature
    assert (found.language.found, named.language.found) == ("detected", "given")
    assert "text looks Chinese: BLEU tokenizer zh; --target-lang to choose" in (found.language.notice or "")
    assert named.language.notice is None


def test_standard_input_is_read(hyp: Path, ref: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(hyp.read_bytes())))
    assert score(STANDARD_INPUT, [ref]).scores == score(hyp, [ref]).scores


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
    assert score(hyp, [pipe]).scores == score(hyp, [ref]).scores
    writer.join()


def test_different_line_counts_are_refused(hyp: Path, tmp_path: Path) -> None:
    short = write(tmp_path / "short", REFERENCES[:2])
    with pytest.raises(DataError) as caught:
        score(hyp, [short])
    assert str(caught.value) == (
        f"{hyp} has 3 lines, but {short} has 2; line n of one must belong to line n of the other"
    )


def test_surplus_of_empty_lines_is_reported(hyp: Path, ref: Path, tmp_path: Path) -> None:
    longer = write(tmp_path / "longer", [*REFERENCES, "", ""])
    with pytest.raises(DataError, match=f"hyp.it has 3 lines, but {longer} has 5; the last 2 of {longer} are empty"):
        score(hyp, [longer])
    with pytest.raises(DataError, match=f"the last 2 of {longer} are empty: remove them"):
        score(longer, [ref])


@pytest.mark.parametrize("option", ["source", "baseline"])
def test_different_line_count_of_any_file_is_refused(hyp: Path, ref: Path, tmp_path: Path, option: str) -> None:
    short = write(tmp_path / "short", ["a"])
    with pytest.raises(DataError, match=f"hyp.it has 3 lines, but {short} has 1"):
        score(hyp, [ref], ScoreOptions(**{option: short}))


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
        ConfigError, match=r"--metric rouge: no such metric, expected one of bleu, chrf, chrf\+\+, ter$"
    ):
        score(hyp, [ref], ScoreOptions(metrics=("bleu", "rouge")))


def test_warnings_come_from_all_files(tmp_path: Path, ref: Path) -> None:
    source = write(tmp_path / "source", ["The cat sleeps.", "Tomorrow.", "I do not know."])
    empty = write(tmp_path / "empty", ["", "", ""])
    report = score(empty, [ref], ScoreOptions(source=source, baseline=source))
    assert report.warnings == (
        f"{empty}: 3 of 3 lines are empty",
        f"{empty}: faults in 3 lines: empty 3; --sentences FILE lists them",
        f"{source}: 100% of its lines are the source, untranslated",
        f"{source}: faults in 3 lines: copy 3; --sentences FILE lists them",
    )
    assert report.scores[0].value == 0


def test_json_contains_the_whole_report(hyp: Path, ref: Path) -> None:
    report = score(hyp, [ref], ScoreOptions(confidence=True, baseline=ref, target_language="it"))
    document = json.loads(report.as_json())
    assert document["lines"] == 3
    assert document["language"] == {"code": "it", "found": "given", "tokenizer": "13a"}
    assert document["scores"][0]["name"] == "BLEU"
    assert document["scores"][0]["value"] == report.scores[0].value
    assert set(document["scores"][0]["confidence"]) == {"mean", "margin"}
    assert document["comparisons"][0]["baseline"] == pytest.approx(100)
    assert document["comparisons"][0]["difference"] == pytest.approx(report.scores[0].value - 100)
    assert document["warnings"] == [f"{ref} is the reference, word for word"]


def test_scores_are_a_line_each_if_80_columns_suffice(hyp: Path, ref: Path) -> None:
    report = score(hyp, [ref])
    bleu, chrf = report.as_text().split("\n")
    assert bleu.split() == ["BLEU", f"{report.scores[0].value:.2f}", report.scores[0].signature]
    assert chrf.split() == ["chrF2", f"{report.scores[1].value:.2f}", report.scores[1].signature]


def test_scores_that_need_more_than_80_columns_are_two_lines_each(hyp: Path, ref: Path) -> None:
    report = score(hyp, [ref], ScoreOptions(metrics=("bleu", "ter"), confidence=True))
    bleu, ter = report.scores
    assert bleu.confidence is not None
    assert ter.confidence is not None
    assert report.as_text().split("\n") == [
        f"BLEU  {bleu.value:.2f} ± {bleu.confidence.margin:.2f} (95 %)",
        f"  {bleu.signature}",
        f"TER   {ter.value:.2f} ± {ter.confidence.margin:.2f} (95 %)  lower is better",
        f"  {ter.signature}",
    ]


def test_several_systems_are_compared_with_the_baseline_in_words(tmp_path: Path) -> None:
    references = [f"il gatto numero {word} dorme sul tappeto rosso" for word in "abcdefghijklmnopqrst"]
    ref = write(tmp_path / "ref", references)
    good = write(tmp_path / "good", [*references[:19], "il gatto"])
    same = write(tmp_path / "same", [line.replace("dorme", "sta") for line in references])
    bad = write(tmp_path / "bad", [line.replace("gatto numero", "cane") for line in references])
    options = ScoreOptions(metrics=("chrf", "ter"), systems=(same, bad), baseline=same)
    report = score(good, [ref], options)
    chrf, ter = report.as_text().split("\n\n")
    title, signature, *rows = chrf.split("\n")
    assert (title, signature) == ("chrF2", "  " + report.comparisons[0].signature)
    value, base = f"{report.scores[0].value:.2f}", report.systems[-1].scores[0].value
    assert rows[0].split() == ["good", value, f"{report.scores[0].value - base:+.2f}", "better", "(p", "=", "0.001)"]
    assert rows[1].split(maxsplit=3)[2:] == ["+0.00", "no significant difference (p = 1.000)"]
    assert rows[2].split()[3] == "worse"
    assert rows[3].split() == ["same", f"{base:.2f}", "baseline"]
    assert ter.startswith("TER, lower is better\n")
    assert "better" in ter.split("\n")[2]
    # a signature is not cut
    assert max(len(line) for line in report.as_text().split("\n") if "nrefs:" not in line) <= 80
    document = json.loads(report.as_json())
    assert [system["name"] for system in document["systems"]] == ["good", "same", "bad", "same"]
    assert document["comparisons"][0]["verdict"] == "better"


def test_equal_file_names_have_their_folders(hyp: Path, ref: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = write(tmp_path / "other" / "hyp.it", REFERENCES)
    assert [system.name for system in score(hyp, [ref], ScoreOptions(systems=(other,))).systems] == [
        str(hyp),
        str(other),
    ]
    assert [system.name for system in score(hyp, [ref], ScoreOptions(systems=(ref,))).systems] == ["hyp.it", "ref.it"]


def test_lines_are_scored_by_length(tmp_path: Path) -> None:
    short, long = ["sì certo", "no"], ["il gatto nero dorme sul tappeto rosso", "il gatto dorme"]
    hyp, ref = write(tmp_path / "hyp", [short[1], *long]), write(tmp_path / "ref", [short[0], *long])
    (system,) = score(hyp, [ref], ScoreOptions(metrics=("chrf",), by="length")).systems
    assert [(part.words, part.lines) for part in system.by_length] == [("1–5", 2), ("6–10", 1)]
    assert system.by_length[1].values == (100,)
    expected = measure("chrf", [short[1], long[1]], [[short[0], long[1]]], target_language("it")).score().value
    assert system.by_length[0].values == (pytest.approx(expected),)
    source = write(tmp_path / "source", ["a " * 61, "b", "c"])
    report = score(hyp, [ref], ScoreOptions(metrics=("chrf",), by="length", source=source))
    assert [part.words for part in report.systems[0].by_length] == ["1–5", "> 60"]
    table = [line.split() for line in report.as_text().split("By words of the source\n")[1].splitlines()]
    assert table[:2] == [["1–5", ">", "60"], ["lines", "2", "1"]]
    assert table[2][0] == "chrF2"
    assert json.loads(report.as_json())["by_length"][1]["lines"] == 1


def test_tables_by_length_fit_80_columns(tmp_path: Path) -> None:
    lines = ["a " * length for length in (3, 8, 15, 25, 35, 50, 70)]
    files = [write(tmp_path / f"hyp.Lan-Bridge-{number}.zh", lines) for number in range(4)]
    report = score(files[0], [files[0]], ScoreOptions(metrics=("chrf",), by="length", systems=tuple(files[1:])))
    table = report.as_text().split("chrF2 by words of the reference\n")[1].splitlines()
    assert len(table) == 6
    assert max(map(len, table)) <= 80


@pytest.mark.parametrize("name", ["sentences.tsv", "sentences.json"])
def test_scores_of_single_lines_are_written(hyp: Path, ref: Path, tmp_path: Path, name: str) -> None:
    score(hyp, [ref], ScoreOptions(metrics=("chrf", "ter"), systems=(ref,), sentences=tmp_path / name))
    lines = (tmp_path / name).read_text(encoding="utf-8").splitlines()
    if name.endswith("json"):
        rows = list(map(json.loads, lines))
    else:
        head = lines[0].split("\t")
        rows = [dict(zip(head, line.split("\t"), strict=True)) for line in lines[1:]]
    assert [(int(row["line"]), row["system"]) for row in rows[:3]] == [(1, str(hyp)), (1, str(ref)), (2, str(hyp))]
    assert len(rows) == 6
    chrf = CHRF().sentence_score(HYPOTHESES[1], [REFERENCES[1]]).score
    assert float(rows[2]["chrF2"]) == pytest.approx(chrf, abs=1e-3)
    assert (rows[2]["hypothesis"], rows[2]["reference"]) == (HYPOTHESES[1], REFERENCES[1])


def test_faults_are_counted_and_written(hyp: Path, ref: Path, tmp_path: Path) -> None:
    bad = write(tmp_path / "bad", ["Il gatto dorme sul тappeto.", "no no no no no no", REFERENCES[2]])
    listed = tmp_path / "lines.tsv"
    report = score(bad, [ref], ScoreOptions(metrics=("chrf",), sentences=listed))
    assert report.warnings == (f"{bad}: faults in 2 lines: repetition 1, script 1; see {listed}",)
    head, *rows = [line.split("	") for line in listed.read_text(encoding="utf-8").splitlines()]
    assert head == ["line", "system", "chrF2", "faults", "hypothesis", "reference"]
    assert [row[3] for row in rows] == ["script Cyrillic: т", "repetition no × 6", ""]
    assert json.loads(report.as_json())["findings"] == {"script": 1, "repetition": 1}


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
