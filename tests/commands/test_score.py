"""`nmt score`: reports of files, and refusals."""

import gzip
import io
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from nmt.commands.score import STANDARD_INPUT, ScoreOptions, score
from nmt.errors import ConfigError, DataError
from nmt.evaluation.metrics import compute
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
    assert report.scores[0] == compute("bleu", HYPOTHESES, [REFERENCES], target_language("it"))
    assert report.scores[1] == compute("chrf", HYPOTHESES, [REFERENCES], target_language("it"))
    assert report.warnings == ()
    assert report.comparisons == ()
    assert report.language.notice is not None


def test_metrics_are_in_the_given_order_without_repetition(hyp: Path, ref: Path) -> None:
    report = score(hyp, [ref], ScoreOptions(metrics=("TER", "chrf++", "ter")))
    assert [entry.name for entry in report.scores] == ["TER", "chrF2++"]


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


def test_language_that_contradicts_the_text_gives_a_warning(hyp: Path, ref: Path, tmp_path: Path) -> None:
    chinese = write(tmp_path / "zh", ["他没有来。"])
    report = score(chinese, [write(tmp_path / "ref", ["她没有来。"])], ScoreOptions(target_language="it"))
    warning, _no_word_in_common = report.warnings
    assert warning == f"target language given as it, but {tmp_path / 'ref'} looks Chinese"
    (warning,) = score(hyp, [ref], ScoreOptions(target_language="zh")).warnings
    assert warning == f"target language given as zh, but {ref} does not look Chinese, Japanese or Korean"


def test_lines_end_at_newline_only(tmp_path: Path) -> None:
    odd = ["uno\u2028due", "tre\x0cquattro\x85cinque", "", "sei\x1csette"]
    hyp, ref = tmp_path / "hyp", tmp_path / "ref"
    hyp.write_bytes("\r\n".join(odd).encode())
    ref.write_bytes(("\n".join(odd) + "\n").encode())
    assert score(hyp, [ref]).lines == 4


def test_compressed_files_are_read(hyp: Path, ref: Path, tmp_path: Path) -> None:
    packed = tmp_path / "ref.gz"
    packed.write_bytes(gzip.compress(ref.read_bytes()))
    assert score(hyp, [packed]).scores == score(hyp, [ref]).scores


def test_standard_input_is_read(hyp: Path, ref: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(hyp.read_bytes())))
    assert score(STANDARD_INPUT, [ref]).scores == score(hyp, [ref]).scores


def test_byte_order_mark_on_standard_input_is_removed(hyp: Path, ref: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marked = io.BytesIO(b"\xef\xbb\xbf" + ref.read_bytes())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(marked))
    assert score(STANDARD_INPUT, [ref]).scores == score(ref, [ref]).scores


def test_gzip_on_standard_input_is_unpacked(hyp: Path, ref: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(hyp.read_bytes()))))
    assert score(STANDARD_INPUT, [ref]).scores == score(hyp, [ref]).scores


def test_standard_input_other_than_utf8_text_is_refused(ref: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("ciao\n".encode("utf-16"))))
    with pytest.raises(DataError, match=r"^standard input: expected text in UTF-8, found UTF-16; convert it: iconv "):
        score(STANDARD_INPUT, [ref])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    with pytest.raises(DataError, match=r"^standard input: empty, expected one sentence a line"):
        score(STANDARD_INPUT, [ref])
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(DataError, match=r"^standard input is closed; name a file"):
        score(STANDARD_INPUT, [ref])


def test_standard_input_for_two_texts_is_refused(hyp: Path) -> None:
    with pytest.raises(ConfigError, match=r"standard input can be read only once, but - names two texts; name a file"):
        score(STANDARD_INPUT, [STANDARD_INPUT])
    with pytest.raises(ConfigError, match=r"standard input can be read only once"):
        score(hyp, [STANDARD_INPUT], ScoreOptions(source=STANDARD_INPUT))


def test_different_line_count_of_standard_input_is_refused(hyp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"uno\n")))
    with pytest.raises(DataError, match=r"hyp.it has 3 lines, but standard input has 1; line n of one"):
        score(hyp, [STANDARD_INPUT])


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
    with pytest.raises(DataError, match=f"{empty}: empty, expected one sentence a line"):
        score(empty, [ref])
    with pytest.raises(DataError, match=f"{empty}: empty"):
        score(hyp, [empty])
    with pytest.raises(DataError, match="nowhere"):
        score(hyp, [tmp_path / "nowhere"])


def test_unknown_metric_is_refused(hyp: Path, ref: Path) -> None:
    with pytest.raises(ConfigError, match=r"--metric comet: no such metric, expected one of bleu, chrf, chrf\+\+, ter"):
        score(hyp, [ref], ScoreOptions(metrics=("bleu", "comet")))


def test_bleu_of_zero_gives_an_explanation(tmp_path: Path) -> None:
    short, longer = write(tmp_path / "short", ["a cat sat"]), write(tmp_path / "longer", ["a cat sat down", "so"])
    (warning,) = score(short, [write(tmp_path / "ref", ["a cat stood"])]).warnings
    assert "BLEU is 0: no line of" in warning
    assert "has four words in a row" in warning
    assert score(longer, [write(tmp_path / "ref", ["a cat stood up", "so"])]).warnings == ()
    assert score(longer, [tmp_path / "ref"], ScoreOptions(("chrf",))).warnings == ()
    assert score(short, [write(tmp_path / "one", ["a cat stood"])], ScoreOptions(("chrf",))).warnings == ()


def test_warnings_come_from_all_files(tmp_path: Path, ref: Path) -> None:
    source = write(tmp_path / "source", ["The cat sleeps.", "Tomorrow.", "I do not know."])
    empty = write(tmp_path / "empty", ["", "", ""])
    report = score(empty, [ref], ScoreOptions(source=source, baseline=source))
    assert report.warnings == (
        f"{empty}: 3 of 3 lines are empty",
        f"{source}: 100% of its lines are the source, untranslated",
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


def test_table_is_formatted(hyp: Path, ref: Path) -> None:
    report = score(hyp, [ref], ScoreOptions(metrics=("bleu", "ter")))
    bleu, ter = report.as_text().split("\n")
    assert bleu.split() == ["BLEU", f"{report.scores[0].value:.2f}", report.scores[0].signature]
    assert ter.startswith(f"TER   {report.scores[1].value:.2f}  lower is better  nrefs:1|case:lc")


def test_table_contains_intervals_and_comparison(hyp: Path, ref: Path) -> None:
    report = score(hyp, [ref], ScoreOptions(confidence=True, baseline=hyp))
    bleu, chrf, blank, head, columns, *rows = report.as_text().split("\n")
    assert report.scores[0].confidence is not None
    assert f"{report.scores[0].value:.2f}  ± {report.scores[0].confidence.margin:.2f} (95 %)" in bleu
    assert chrf.startswith("chrF2  ")
    assert blank == ""
    assert head == "paired bootstrap, 1000 samples"
    assert columns.split() == ["system", "baseline", "difference", "p"]
    value = f"{report.scores[0].value:.2f}"
    assert rows[0].split() == ["BLEU", value, value, "+0.00", "1.000", "may", "be", "chance"]
    assert len(rows) == 2


def test_importing_score_imports_no_large_package(repository: Path) -> None:
    program = "import nmt.commands.score, sys; print([m for m in ('torch', 'numpy', 'sacrebleu') if m in sys.modules])"
    command = [sys.executable, "-c", program]
    assert subprocess.run(command, cwd=repository, check=True, capture_output=True, text=True).stdout.strip() == "[]"
