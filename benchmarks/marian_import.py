"""Compare an imported model with Marian: train a small one with Marian, import it, score and translate with both.

    python benchmarks/marian_import.py FOLDER --marian /path/to/pymarian

FOLDER is new; the text is data/demo. `pymarian` (pip install pymarian) has Marian's commands.
"""

import argparse
import io
import json
import subprocess
from pathlib import Path

import sentencepiece

from nmt.commands.conversion import import_model
from nmt.system.console import Console
from nmt.translation.translator import Translator

_DATA = Path(__file__).resolve().parent.parent / "data" / "demo"
_LINES, _BEAM = 200, 4


def main() -> None:
    """Print the largest difference of log-probabilities, and how many translations are equal."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--marian", default="pymarian")
    parser.add_argument("--updates", type=int, default=500)
    arguments = parser.parse_args()
    folder, marian = arguments.folder, arguments.marian
    folder.mkdir()
    pairs = {
        part: [line.split("\t")[:2] for line in (_DATA / f"{part}.tsv").read_text("utf-8").splitlines()]
        for part in ("train", "test")
    }
    spm = write_texts(folder, pairs)
    vocabularies = ["-v", "opus.vocab.yml", "opus.vocab.yml"]
    shape = "--dim-emb 64 --transformer-dim-ffn 128 --transformer-heads 4 --enc-depth 2 --dec-depth 2"
    opus = "--type transformer --tied-embeddings-all --transformer-ffn-activation swish --transformer-postprocess dan"
    rate = f"--learn-rate 0.003 --lr-warmup 100 --mini-batch 64 --after-batches {arguments.updates} --cpu-threads 1"
    texts = ["-t", "train.source", "train.target"]
    training = [*f"{opus} --transformer-postprocess-emb d {shape} {rate}".split(), "--transformer-preprocess", ""]
    run(folder, marian, "train", "-m", "model.npz", *texts, *vocabularies, *training)
    model = ["-m", "model.npz", *vocabularies, "--cpu-threads", "1"]
    scores = run(folder, marian, "score", *model, "-t", "test.source", "test.target").split()
    translated = run(folder, marian, "decode", *model, "-b", str(_BEAM), "-n", "0", "-i", "test.source").splitlines()

    import_model(folder, folder / "ours", "en-it", Console(quiet=True))
    translator = Translator.load(folder / "ours", precision="fp32", device="cpu", threads=1)
    options = translator.options(beam=_BEAM, overrides=["decode.length_penalty=0", "decode.exact=true"])
    sentences = [(source, target) for source, target in pairs["test"][:_LINES]]
    ours = [sum(forced.token_log_probs) for forced in translator.force(sentences, options)]
    differences = [abs(a - float(b)) for a, b in zip(ours, scores, strict=True)]
    ids = [translator.tokenizers.source.encode(source) for source, _ in sentences]
    found = translator.engine.search(ids, options.search, [[]] * len(ids))
    texts = [translator.tokenizers.target.decode(best.tokens) for best, *_ in found]
    equal = sum(text == spm[1].decode(line.split()) for text, line in zip(texts, translated, strict=True))
    print(f"log-probability of a sentence: differs by {max(differences):.1e} at most")
    print(f"translations with a beam of {_BEAM}: {equal} of {len(texts)} are equal")


def write_texts(folder: Path, pairs: dict[str, list[list[str]]]) -> list[sentencepiece.SentencePieceProcessor]:
    """Write two tokenizers, their joint vocabulary and the texts in pieces, as OPUS-MT has them."""
    processors = []
    for side, name in enumerate(("source", "target")):
        stream = io.BytesIO()
        lines = [pair[side] for pair in pairs["train"]]
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines), model_writer=stream, vocab_size=800, character_coverage=1.0, minloglevel=2
        )
        (folder / f"{name}.spm").write_bytes(stream.getvalue())
        processors.append(sentencepiece.SentencePieceProcessor(model_proto=stream.getvalue()))
        for part, count in (("train", None), ("test", _LINES)):
            pieces = [" ".join(processors[-1].encode(pair[side], out_type=str)) for pair in pairs[part][:count]]
            (folder / f"{part}.{name}").write_text("".join(f"{line}\n" for line in pieces), encoding="utf-8")
    joint = dict.fromkeys(each.id_to_piece(i) for each in processors for i in range(3, len(each)))
    entries = ["</s>", "<unk>", *joint]
    vocabulary = "".join(f"{json.dumps(piece, ensure_ascii=False)}: {i}\n" for i, piece in enumerate(entries))
    (folder / "opus.vocab.yml").write_text(vocabulary, encoding="utf-8")
    return processors


def run(folder: Path, *command: str) -> str:
    """Return the output of a command of Marian."""
    return subprocess.run(command, cwd=folder, check=True, text=True, stdout=subprocess.PIPE).stdout


if __name__ == "__main__":
    main()
