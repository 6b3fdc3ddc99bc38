// Greedy and beam search.
#include "model.h"

#include <vector>

struct Beams {  // B sentences, K = beam, n = best, P = positions: shapes are those of `nmt.decoding.beam.Beams`
    float* log_probs;
    long *tokens, *lengths, *limits;
    int* history;
    float *finished, *finished_log_probs;
    long* finished_lengths;
    int* finished_tokens;
    long sentences, beam, best, positions;

    int* history_of(long sentence, long place) const { return history + (sentence * beam + place) * 2 * positions; }

    void finish(long sentence, long at, float log_prob, const int* prefix) const {
        const long to = sentence * best + at;
        finished_log_probs[to] = log_prob, finished_lengths[to] = lengths[sentence];
        std::copy(prefix, prefix + lengths[sentence], finished_tokens + to * positions);
    }

    void forget(long sentence) const {
        std::fill_n(finished + sentence * best, best, -INFINITY);
        std::fill_n(finished_lengths + sentence * best, best, 0);
    }

    // A place has a hypothesis with one more token, or none (log_prob is -inf).
    void extend(long sentence, long place, float log_prob, long token) const {
        const bool is_active = log_prob > -INFINITY;
        log_probs[sentence * beam + place] = log_prob;
        tokens[sentence * beam + place] = is_active ? token : FIRST;
        if (lengths[sentence] >= positions) return;
        int* newest = history_of(sentence, place) + lengths[sentence];
        newest[0] = is_active ? token : FIRST, newest[positions] = place;
    }
};

struct Candidate {
    float log_prob;
    long parent, token;
};

// Insert into a list in descending order, behind equal ones; the last one is lost.
static void insert(std::vector<Candidate>& list, const Candidate& candidate) {
    auto at = list.end() - 1;
    for (; at > list.begin() && candidate.log_prob > at[-1].log_prob; at--) *at = at[-1];
    *at = candidate;
}

// The `count` largest of each row of logits (rows, stride), and their tokens, as log-probabilities if `normalized`.
// Logits behind the vocabulary are -inf.
static void best_tokens(
    const float* logits, const char* must_end, float* best, long* tokens, long rows, long vocabulary, long stride,
    long count, bool normalized
) {
    std::vector<Candidate> list(count);
    for (long row = 0; row < rows; row++, logits += stride) {
        const float normalizer = normalizer_of(logits, vocabulary, stride, normalized);
        std::fill(list.begin(), list.end(), Candidate{-INFINITY, 0, LAST});
        const auto consider = [&](long token) {
            if (logits[token] > list.back().log_prob) insert(list, {logits[token], 0, token});
        };
        if (must_end[row]) list[0].log_prob = logits[LAST];
        long i = must_end[row] ? stride : LAST;
        for (; i % LANES; i++) consider(i);
        for (; i < stride; i += LANES)
            if (any(*(const Floats*)(logits + i) > list.back().log_prob))
                for (long token = i; token < i + LANES; token++) consider(token);
        for (const Candidate& candidate : list) *best++ = candidate.log_prob - normalizer, *tokens++ = candidate.token;
    }
}

struct Rules {  // of a search; greedy search takes one candidate of each hypothesis
    const float* penalties;
    long candidates, growth, is_greedy, is_normalized;
    float margin;
};

// Beam search, as `nmt.decoding.beam.advance`. Places are those of active hypotheses, ascending; each has its best next
// tokens. An exact search has an infinite margin. A sentence with a number that is none gets no hypothesis.
static void advance(
    const Beams& b, const std::vector<long>& places, const float* next_log_probs, const long* next_tokens,
    const Rules& rules
) {
    std::vector<Candidate> list(2 * b.beam);
    std::vector<int> before(b.beam * 2 * b.positions);
    for (auto at = places.begin(); at < places.end();) {
        const long sentence = *at / b.beam, length = b.lengths[sentence];
        const Candidate none = {-INFINITY, 0, LAST};
        bool are_numbers = true;
        std::fill(list.begin(), list.end(), none);
        for (; at < places.end() && *at / b.beam == sentence; at++) {
            for (long i = 0; i < rules.candidates; i++) {
                const float log_prob = b.log_probs[*at] + next_log_probs[i];
                are_numbers &= log_prob == log_prob;
                if (!(log_prob > list.back().log_prob)) break;  // nor is the rest
                insert(list, {log_prob, *at % b.beam, next_tokens[i]});
            }
            next_log_probs += rules.candidates, next_tokens += rules.candidates;
        }
        if (!are_numbers) std::fill(list.begin(), list.end(), none), b.forget(sentence);
        float* finished = b.finished + sentence * b.best;
        for (long rank = 0; rank < b.beam && list[rank].log_prob > -INFINITY; rank++) {
            const float normalized = list[rank].log_prob / rules.penalties[length];
            float* worst = std::min_element(finished, finished + b.best);
            if (list[rank].token != LAST || !(normalized > *worst)) continue;
            *worst = normalized;
            b.finish(sentence, worst - finished, list[rank].log_prob, b.history_of(sentence, list[rank].parent));
        }
        const long limit = b.limits[sentence];
        const long longest = std::isinf(rules.margin) ? limit : std::min(limit, length + length / rules.growth + 1);
        const float bound = *std::min_element(finished, finished + b.best) * rules.penalties[longest];
        const float least = list[b.best - 1].log_prob - rules.margin;
        int* history = b.history_of(sentence, 0);
        for (long row = 0; row < 2 * b.beam; row++)
            std::copy_n(history + row * b.positions, length, &before[row * b.positions]);
        long place = 0, active = 0;
        for (const Candidate& next : list) {
            if (place == b.beam || next.token == LAST) continue;
            const bool is_kept = next.log_prob > bound && next.log_prob >= least;
            active += is_kept;
            for (long row = 0; row < 2; row++)
                std::copy_n(
                    &before[(2 * next.parent + row) * b.positions], length, history + (2 * place + row) * b.positions
                );
            b.extend(sentence, place++, is_kept ? next.log_prob : -INFINITY, next.token);
        }
        for (; place < b.beam; place++) b.extend(sentence, place, -INFINITY, 0);
        b.lengths[sentence] += active > 0;
    }
}

// Greedy search, as `nmt.decoding.beam.extend_each` for one hypothesis of each sentence: a row is a sentence.
static void extend_each(
    const Beams& b, const std::vector<long>& rows, const float* next_log_probs, const long* tokens
) {
    for (const long sentence : rows) {
        const float log_prob = b.log_probs[sentence] + *next_log_probs++;
        const long token = *tokens++;
        const bool is_number = log_prob > -INFINITY, is_active = is_number && token != LAST;
        if (is_number && !is_active) b.finish(sentence, 0, log_prob, b.history_of(sentence, 0));
        b.extend(sentence, 0, is_active ? log_prob : -INFINITY, token);
        b.lengths[sentence] += is_active;
    }
}

struct Search {
    const long *ids, *offsets;  // of all sources, one behind the other; (B + 1) where each begins, and their number
    const long *source_lengths, longest;  // (B); the greatest of them
    Beams beams;
    Rules rules;
    void* cells;  // of each layer: of the sources (B, longest), then of the targets (P, B, K)
    float* scratch;

    // The cells of a layer, of so many bytes each.
    char* of_source(long layer, long bytes) const {
        const long of_targets = beams.positions * beams.sentences * beams.beam;
        return (char*)cells + layer * (beams.sentences * longest + of_targets) * bytes;
    }
    char* of_target(long layer, long bytes) const {
        return of_source(layer, bytes) + beams.sentences * longest * bytes;
    }
};

// Write the keys and values of some sources to their cells. Scratch has embeddings, and what `encode` needs.
template <class Number>
static void encode_sources(const Model& m, const Search& s, long first, long end) {
    const long dim = m.encoder.dim, begin = s.offsets[first], count = s.offsets[end] - begin;
    float *x = s.scratch, *rest = x + count * dim;
    std::vector<long> offsets;
    for (long sentence = first; sentence <= end; sentence++) offsets.push_back(s.offsets[sentence] - begin);
    for (long sentence = first, row = 0; sentence < end; sentence++)
        for (long position = 0; position < s.source_lengths[sentence]; position++, row++)
            m.source.write(x + row * dim, s.ids[begin + row], position, dim);
    RowsAttention sentences{};
    sentences.query_offsets = sentences.key_offsets = offsets.data();
    sentences.sentences = end - first, sentences.heads = m.encoder.heads, sentences.width = dim / m.encoder.heads;
    sentences.longest = *std::max_element(s.source_lengths + first, s.source_lengths + end), sentences.threads = 1;
    pass_rows(m.encoder, sentences, x, rest, nullptr);
    for (long layer = 0; layer < m.decoder.count; layer++) {
        const Product* product = m.key_values[layer];
        product->multiply(*product, rest + count * 2 * dim, rest, x, count, false);
        Number* cells = (Number*)s.of_source(layer, 2 * dim * sizeof(Number));
        for (long sentence = first; sentence < end; sentence++) {
            const float* from = rest + offsets[sentence - first] * 2 * dim;
            Number* to = cells + sentence * s.longest * 2 * dim;
            for (long i = 0; i < s.source_lengths[sentence] * 2 * dim; i++) to[i] = from[i];
        }
    }
}

extern "C" {
extern const long rows_of_logits = BLOCK;

// Encode all sources, about so many tokens at a time; each sentence gets its first hypothesis.
void begin_search(const Model& m, const Search& s, long tokens) {
    const Beams& b = s.beams;
    for (long first = 0, end = 0; first < b.sentences; first = end) {
        while (end < b.sentences && (end == first || s.offsets[end + 1] - s.offsets[first] <= tokens)) end++;
        m.has_bf16_cells ? encode_sources<Bfloat16>(m, s, first, end) : encode_sources<float>(m, s, first, end);
    }
    for (long sentence = 0; sentence < b.sentences; sentence++) {
        b.lengths[sentence] = 0;  // so that <s> is added
        for (long place = 0; place < b.beam; place++) b.extend(sentence, place, place ? -INFINITY : 0, FIRST);
        b.lengths[sentence] = 1;
        b.forget(sentence);
    }
}

// At most so many steps of all hypotheses; returns whether any is active. Scratch has hidden states, logits, and what
// `decode` needs.
bool continue_search(const Model& m, const Search& s, long steps) {
    const Beams& b = s.beams;
    const Rules& rules = s.rules;
    const long dim = m.decoder.dim, stride = m.output.product->outputs, bytes = 2 * dim * (m.has_bf16_cells ? 2 : 4);
    std::vector<long> rows, tokens;
    std::vector<float> log_probs;
    std::vector<char> must_end;
    std::vector<void*> cells;
    for (long layer = 0; layer < m.decoder.count; layer++)
        cells.push_back(s.of_target(layer, bytes)), cells.push_back(s.of_source(layer, bytes));
    for (;; steps--) {
        rows.clear();
        for (long place = 0; place < b.sentences * b.beam; place++)
            if (b.log_probs[place] > -INFINITY) rows.push_back(place);
        const long count = rows.size(), block = std::min(count, BLOCK);
        if (!count || !steps) return count;
        const Places places[2] = {
            {rows.data(), b.lengths, b.history + b.positions, b.sentences * b.beam * 2 * dim, b.beam * 2 * dim, 2 * dim,
             2 * b.positions, b.beam, b.positions},
            {rows.data(), s.source_lengths, nullptr, 2 * dim, s.longest * 2 * dim, 0, 0, b.beam, s.longest},
        };
        float *x = s.scratch, *logits = x + count * dim, *rest = logits + block * stride;
        Decode* decode = m.has_bf16_cells ? decode_bf16 : decode_fp32;
        decode(m.decoder, m.target, b.tokens, places, cells.data(), x, rest, count);
        log_probs.resize(count * rules.candidates), tokens.resize(log_probs.size()), must_end.resize(count);
        for (long row = 0; row < count; row++)
            must_end[row] = b.limits[rows[row] / b.beam] == b.lengths[rows[row] / b.beam];
        for (long row = 0; row < count; row += block) {
            const long part = std::min(block, count - row), first = row * rules.candidates;
            m.output.logits(logits, x + row * dim, rest, part);
            best_tokens(
                logits, &must_end[row], &log_probs[first], &tokens[first], part, m.output.vocabulary, stride,
                rules.candidates, rules.is_normalized
            );
        }
        if (rules.is_greedy)
            extend_each(b, rows, log_probs.data(), tokens.data());
        else
            advance(b, rows, log_probs.data(), tokens.data(), rules);
    }
}
}
