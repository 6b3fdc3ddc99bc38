"""The answers to requests of LibreTranslate's interface, without HTTP: texts, documents, languages.

The interface is that of LibreTranslate (https://docs.libretranslate.com/api/operations/translate/); `glossary` and
`alignment` are additions. Several threads may use it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from threading import Event
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Discriminator, Field, Tag

from nmt.errors import ConfigError
from nmt.serving.request_queue import RequestQueue
from nmt.text.glossary import Glossary
from nmt.text.languages import english_name, nearest_code, primary_code, probabilities
from nmt.text.words import linked_spans
from nmt.translation.documents.document import COLUMN_FORMATS, SPACES, Content, ReadOptions
from nmt.translation.documents.recognizing import ENDINGS, recognized_format
from nmt.translation.documents.translating import TranslateBatches, html_document, read_document, translate_document
from nmt.translation.documents.xliff import stated_source
from nmt.translation.options import TranslateOptions
from nmt.translation.result import Translation
from nmt.translation.translator import Translator

_LIBRETRANSLATE = {"zt": "zh-Hant", "pb": "pt-BR"}  # codes of its own
_TAG = re.compile(r"<[^<>]*>")
_COMPRESSED = re.compile(rb"\x1f\x8b|BZh\d1AY&SY|\xfd7zXZ\0|\x28\xb5\x2f\xfd")  # gzip, bzip2, xz, zstd
# Endings of the documents that are translated; no request names a column.
FILE_ENDINGS = [".txt", *(ending for ending, format_ in ENDINGS.items() if format_ not in COLUMN_FORMATS)]
Filled = Annotated[str, Field(min_length=1)]


class RequestError(Exception):
    """A request that is refused: the status of the answer, and the message in it."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class DetectRequest(BaseModel):
    """The parameters of /detect."""

    q: Annotated[
        Annotated[Filled, Tag("text")] | Annotated[list[str], Field(min_length=1, max_length=1000), Tag("list")],
        Discriminator(lambda q: "list" if isinstance(q, list) else "text"),
    ]

    @property
    def texts(self) -> list[str]:
        """All texts."""
        return [self.q] if isinstance(self.q, str) else self.q


class FileRequest(BaseModel):
    """The parameters of /translate_file, beside the file."""

    source: Filled
    target: Filled


class TextRequest(FileRequest, DetectRequest):
    """The parameters of /translate."""

    format: Literal["text", "html"] = "text"
    alternatives: Annotated[int, Field(ge=0, le=10)] = 0
    alignment: bool = False
    glossary: Annotated[dict[Filled, Filled], Field(max_length=1000)] = {}


class Service:
    """The models of a server by source and target language."""

    def __init__(self, translators: Sequence[Translator]) -> None:
        """Start a thread for each model. Raises ConfigError for two models of one direction."""
        self.queues: dict[tuple[str, str], RequestQueue] = {}
        for queue in map(RequestQueue, translators):
            languages = queue.translator.languages
            for direction in ((languages.source, target) for target in languages.target):
                if direction in self.queues:
                    raise ConfigError(f"--model: two models translate {' → '.join(direction)}; give one of them")
                self.queues[direction] = queue
        self.codes = list(dict.fromkeys(code for direction in self.queues for code in direction))

    def languages(self) -> list[dict[str, Any]]:
        """Return each language with its English name and the languages that it is translated to."""
        targets = {code: [target for source, target in self.queues if source == code] for code in self.codes}
        return [{"code": code, "name": english_name(code), "targets": targets[code]} for code in self.codes]

    def detect(self, texts: Iterable[str], codes: Sequence[str]) -> list[dict[str, Any]]:
        """Return languages by their probability for a text, in percent, the most probable first."""
        shares = probabilities("\n".join(texts))
        percent = {code: round(100 * shares.get(primary_code(code), 0), 1) for code in codes}
        return [{"confidence": percent[code], "language": code} for code in sorted(codes, key=lambda c: -percent[c])]

    def direction(self, request: FileRequest, texts: Iterable[str]) -> tuple[tuple[str, str], dict[str, Any] | None]:
        """Return source and target; for `auto`, also what `detect` finds in the texts. Raises RequestError."""
        target, detected = self._known(request.target), None
        if request.source == "auto":
            if not (sources := [source for source, code in self.queues if code == target]):
                raise RequestError(400, f"{target} is not available as a target language")
            detected = self.detect([_TAG.sub(" ", text) for text in texts], sources)[0]
        source = detected["language"] if detected else self._known(request.source)
        if (source, target) not in self.queues:
            raise RequestError(400, f"{target} is not available as a target language from {source}")
        return (source, target), detected

    def translate(self, request: TextRequest, abandoned: Event) -> dict[str, Any]:
        """Return the answer to a request for the translation of texts."""
        direction, detected = self.direction(request, request.texts)
        queue = self.queues[direction]
        options = options_for(queue.translator, direction[1], request.alternatives, request.alignment)
        if request.glossary:
            options = replace(options, glossary=Glossary(request.glossary))
        translate_batches = partial(queue.translate_batches, abandoned=abandoned)
        if request.format == "text":
            answers = list(_text_answers(translate_batches, request.texts, options))
        else:  # with neither alternatives nor an alignment
            pages = (translate_document(translate_batches, html_document(text), options)[0] for text in request.texts)
            empty = {"alternatives": list[str]()} if options.search.n_best > 1 else {}
            answers = [{"translatedText": page.decode(), **empty} for page in pages]
        if detected:
            answers = [{**answer, "detectedLanguage": detected} for answer in answers]
        is_text = isinstance(request.q, str)
        return answers[0] if is_text else {key: [answer[key] for answer in answers] for key in answers[0]}

    def translate_file(
        self, request: FileRequest, name: str, data: bytes, abandoned: Event
    ) -> tuple[bytes, list[str], str, int]:
        """Return a document with its texts translated, warnings, its target language, and its number of characters."""
        if _COMPRESSED.match(data):
            raise RequestError(400, f"{name}: a compressed file is not translated; unpack it first")
        try:
            format_ = recognized_format(None, Path(name), data[: 1 << 16])
        except ConfigError:  # its advice is for the command line
            raise RequestError(400, f"{name}: documents of this format are not translated") from None
        if format_ in COLUMN_FORMATS:
            raise RequestError(400, f"{name}: the format {format_} is not translated here: its column is unknown")
        if request.source == "auto" and format_ == "xliff" and (stated := stated_source(data)):
            request = FileRequest(source=stated, target=request.target)
        to_detect = _beginning(data, name, ReadOptions(format_, languages=("", self._known(request.target))))
        direction, _ = self.direction(request, to_detect)
        queue = self.queues[direction]
        options = options_for(queue.translator, direction[1], 0, False)
        translate_batches = partial(queue.translate_batches, abandoned=abandoned)
        read_options = ReadOptions(format_, languages=direction)
        if format_ == "text":
            content = Content.decode(data, name, read_options)
            (answer,) = _text_answers(translate_batches, [content.text], options)
            return content.encode(answer["translatedText"]), [], direction[1], len(content.text)
        document = read_document(data, name, read_options)
        count = sum(len(text.text) for text, _ in document.texts.entries)
        return *translate_document(translate_batches, document, options), direction[1], count

    def _known(self, requested: str) -> str:
        """Return the server's code of a language: the requested code, or another code of the same language."""
        nearest = nearest_code(_LIBRETRANSLATE.get(requested, requested), tuple(self.codes))
        if nearest is None:
            raise RequestError(400, f"{requested} is not supported")
        return nearest


def _beginning(data: bytes, name: str, options: ReadOptions) -> Iterator[str]:
    """Yield the beginning of the texts of a document. It is read only when it is needed."""
    if options.format == "text":
        text = Content.decode(data, name, options).text
    else:
        text = "\n".join(line.text for line, _ in read_document(data, name, options).texts.entries)
    yield text[: 1 << 14]


@lru_cache
def options_for(translator: Translator, target: str, alternatives: int, alignment: bool) -> TranslateOptions:
    """Return how to translate without a glossary."""
    options = translator.options(n_best=1 + alternatives, to=target)
    # greedy search is faster without log-probabilities, which no answer has
    search = options.search.model_copy(update={"log_probs": alternatives > 0})
    return replace(options, search=search, alignment=alignment)


def _text_answers(
    translate_batches: TranslateBatches[str], texts: Sequence[str], options: TranslateOptions
) -> Iterator[dict[str, Any]]:
    """Yield the answer for each text, whose lines are translated; line ends and the spaces around lines stay."""
    parts = [SPACES.split(text) for text in texts]  # lines at even indices, what is between them at odd ones
    batches = translate_batches([line for pieces in parts for line in pieces[::2]], options)
    in_order = iter([translation for _, batch in batches for translation in batch])
    for pieces in parts:
        translations = [next(in_order) for _ in pieces[::2]]
        ranked = [[best.text, *(other.text for other in best.alternatives)] for best in translations]
        translated = list[list[str]]()  # the pieces of the best translation, of the second best, …
        for rank in range(max(map(len, ranked))):
            translated.append(pieces.copy())
            translated[rank][::2] = [texts_of_line[min(rank, len(texts_of_line) - 1)] for texts_of_line in ranked]
        best, *others = map("".join, translated)
        answer: dict[str, Any] = {"translatedText": best}
        if options.search.n_best > 1:
            answer["alternatives"] = others
        if options.alignment:
            answer["alignment"] = _spans(pieces, translated[0], translations)
        yield answer


def _spans(pieces: Sequence[str], translated: Sequence[str], translations: Sequence[Translation]) -> list[list[int]]:
    """Return the aligned words of a text: start and end in the source, start and end in the translation."""
    spans, source, target = list[list[int]](), 0, 0
    for index, (piece, text) in enumerate(zip(pieces, translated, strict=True)):
        links = translations[index // 2].alignment if index % 2 == 0 else None
        for first, end, *others in linked_spans(piece, text, links or ()):
            spans.append([source + first, source + end, *(target + position for position in others)])
        source, target = source + len(piece), target + len(text)
    return spans
