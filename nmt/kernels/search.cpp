// Greedy search, beam search and sampling, with one model or several.
#include "model.h"

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

    // Put a hypothesis with one more token into a place, or none if log_prob is -inf.
    void extend(long sentence, long place, float log_prob, long token) const {
        const bool is_active = log_prob > -INFINITY;
        log_probs[sentence * beam + place] = log_prob;
        tokens[sentence * beam + place] = is_active ? token : BOS;
        if (lengths[sentence] >= positions) return;
        int* newest = history_of(sentence, place) + lengths[sentence];
        newest[0] = is_active ? token : BOS, newest[positions] = place;
    }
};

struct Candidate {
    float log_prob;
    long parent, token;
};
constexpr Candidate NONE = {-INFINITY, 0, EOS};

// Insert into `count` candidates in descending order, after equal ones, if one is smaller; the last one is dropped.
static inline bool insert(Candidate* list, long count, const Candidate& candidate) {
    Candidate* at = list + count - 1;
    if (!(candidate.log_prob > at->log_prob)) return false;
    for (; at > list && candidate.log_prob > at[-1].log_prob; at--) *at = at[-1];
    *at = candidate;
    return true;
}

struct Rules {  // see `SearchRules`; candidates: of each hypothesis
    const float* penalties;
    long candidates, growth_divisor, extends_each, as_log_probs, no_repeat_ngram;
    float margin, temperature, top_p;  // temperature: of sampling, else 0
};

// Fill the list of `count` candidates with the largest logits and their tokens, or with the forced token only.
static void best_tokens(const float* logits, long forced, long stride, Candidate* list, long count) {
    std::fill_n(list, count, NONE);
    if (forced >= 0) {
        list[0] = {logits[forced], 0, forced};
        return;
    }
    long token = EOS;
    for (; token % LANES; token++) insert(list, count, {logits[token], 0, token});
    for (; token < stride; token += LANES)
        if (any(*(const Floats*)(logits + token) > list[count - 1].log_prob))
            for (long i = token; i < token + LANES; i++) insert(list, count, {logits[i], 0, i});
}

// The token into whose share of [0, 1) a number falls, see `nmt.decoding.beam.draw`.
static long draw(const float* logits, long vocabulary, float number, const Rules& rules) {
    std::vector<float> shares(vocabulary);
    const float largest = *std::max_element(logits + EOS, logits + vocabulary);
    float sum = 0;
    for (long i = EOS; i < vocabulary; i++) sum += shares[i] = exponential((logits[i] - largest) / rules.temperature);
    if (rules.top_p < 1) {
        std::vector<float> heap(shares);
        std::make_heap(heap.begin(), heap.end());
        float before = 0, least = heap[0];
        for (auto end = heap.end(); end > heap.begin() && !(before > 0 && before >= rules.top_p * sum);) {
            std::pop_heap(heap.begin(), end--);
            before += least = *end;
        }
        sum = 0;
        for (float& share : shares) sum += share = share < least ? 0 : share;
    }
    float end = 0;
    long token = EOS, last = EOS;
    for (; token < vocabulary; token++) {
        if (shares[token] > 0) last = token;
        if ((end += shares[token]) > number * sum) break;
    }
    return std::min(token, last);
}

// Beam search, as `nmt.decoding.beam.advance`. `places` are those of active hypotheses, ascending, `next` the best next
// tokens of each. The margin of an exact search is infinite. A sentence with NaN gets no hypothesis.
static void advance(const Beams& b, const std::vector<long>& places, const Candidate* next, const Rules& rules) {
    std::vector<Candidate> list(2 * b.beam);
    std::vector<int> before(b.beam * 2 * b.positions);
    for (auto at = places.begin(); at < places.end();) {
        const long sentence = *at / b.beam, length = b.lengths[sentence];
        bool are_numbers = true;
        std::fill(list.begin(), list.end(), NONE);
        for (; at < places.end() && *at / b.beam == sentence; at++, next += rules.candidates)
            for (long i = 0; i < rules.candidates; i++) {
                const float log_prob = b.log_probs[*at] + next[i].log_prob;
                are_numbers &= log_prob == log_prob;
                // the other candidates are no better
                if (!insert(list.data(), list.size(), {log_prob, *at % b.beam, next[i].token})) break;
            }
        if (!are_numbers) std::fill(list.begin(), list.end(), NONE), b.forget(sentence);
        float* finished = b.finished + sentence * b.best;
        for (long rank = 0; rank < b.beam && list[rank].log_prob > -INFINITY; rank++) {
            const float normalized = list[rank].log_prob / rules.penalties[length];
            float* worst = std::min_element(finished, finished + b.best);
            if (list[rank].token != EOS || !(normalized > *worst)) continue;
            *worst = normalized;
            b.finish(sentence, worst - finished, list[rank].log_prob, b.history_of(sentence, list[rank].parent));
        }
        const long limit = b.limits[sentence];
        const long grown = length + length / rules.growth_divisor + 1;
        const long longest = std::isinf(rules.margin) ? limit : std::min(limit, grown);
        const float bound = *std::min_element(finished, finished + b.best) * rules.penalties[longest];
        const float least = list[b.best - 1].log_prob - rules.margin;
        int* history = b.history_of(sentence, 0);
        for (long row = 0; row < 2 * b.beam; row++)
            std::copy_n(history + row * b.positions, length, &before[row * b.positions]);
        long place = 0, active = 0;
        for (const Candidate& candidate : list) {
            if (place == b.beam || candidate.token == EOS) continue;
            const bool is_kept = candidate.log_prob > bound && candidate.log_prob >= least;
            active += is_kept;
            for (long row = 0; row < 2; row++)
                std::copy_n(
                    &before[(2 * candidate.parent + row) * b.positions], length,
                    history + (2 * place + row) * b.positions
                );
            b.extend(sentence, place++, is_kept ? candidate.log_prob : -INFINITY, candidate.token);
        }
        for (; place < b.beam; place++) b.extend(sentence, place, -INFINITY, 0);
        b.lengths[sentence] += active > 0;
    }
}

// Greedy search and sampling, as `nmt.decoding.beam.extend_each`.
static void extend_each(const Beams& b, const std::vector<long>& places, const Candidate* next) {
    for (auto at = places.begin(); at < places.end();) {
        const long sentence = *at / b.beam;
        long active = 0;
        for (; at < places.end() && *at / b.beam == sentence; at++, next++) {
            const long place = *at % b.beam, token = next->token;
            const float log_prob = b.log_probs[*at] + next->log_prob;
            const bool is_number = log_prob > -INFINITY, is_active = is_number && token != EOS;
            if (is_number && !is_active) b.finish(sentence, place, log_prob, b.history_of(sentence, place));
            b.extend(sentence, place, is_active ? log_prob : -INFINITY, token);
            active += is_active;
        }
        b.lengths[sentence] += active > 0;
    }
}

struct Search {
    Sentences sources;
    const long *source_lengths, longest;  // (B); the greatest of them
    Beams beams;
    Rules rules;
    const long* required;  // (B, P) tokens that hypotheses begin with, -1 behind them; or none
    const float* noise;    // (B, K, P) numbers of sampling
    const Model* const* models;
    long count;          // of models, whose probabilities are averaged
    void* const* cells;  // of each model and layer: of the sources (B, longest), then of the targets (P, B, K)

    long cells_of_layer() const { return beams.sentences * (longest + beams.positions * beams.beam); }

    // The only token that may follow a hypothesis, -1 if there are several.
    long forced(long place) const {
        const long sentence = place / beams.beam, length = beams.lengths[sentence];
        const long token = required ? required[sentence * beams.positions + length - 1] : -1;
        return token < 0 && beams.limits[sentence] == length ? EOS : token;
    }

    // The number in [0, 1) with which the next token of a hypothesis is drawn.
    float number_of(long place) const { return noise[place * beams.positions + beams.lengths[place / beams.beam] - 1]; }

    // Set the logits of tokens that would repeat an n-gram of a hypothesis to -inf.
    void forbid_repeated(float* logits, long place) const {
        const long size = rules.no_repeat_ngram, length = beams.lengths[place / beams.beam];
        const int* tokens = beams.history_of(place / beams.beam, place % beams.beam);
        for (long start = 1; size && start + size <= length; start++)
            if (std::equal(tokens + start, tokens + start + size - 1, tokens + length - size + 1))
                logits[tokens[start + size - 1]] = -INFINITY;
    }
};

// Write the keys and values of some sources to their cells.
template <class Number>
static void encode_sources(const Search& s, long model, long first, long end) {
    const Model& m = *s.models[model];
    const long dim = m.encoder.dim, begin = s.sources.offsets[first], count = s.sources.offsets[end] - begin;
    const Space memory(count * dim), keys_values(count * 2 * dim);
    std::vector<long> offsets;
    for (long sentence = first; sentence <= end; sentence++) offsets.push_back(s.sources.offsets[sentence] - begin);
    pass_rows(m.encoder, m.source, {s.sources.ids + begin, offsets.data(), end - first}, memory.numbers, nullptr);
    for (long layer = 0; layer < m.decoder.count; layer++) {
        m.key_values[layer]->multiply(keys_values.numbers, memory.numbers, count);
        Number* cells = (Number*)s.cells[model] + layer * s.cells_of_layer() * 2 * dim;
        for (long sentence = first; sentence < end; sentence++) {
            const float* source = keys_values.numbers + offsets[sentence - first] * 2 * dim;
            Number* cell = cells + sentence * s.longest * 2 * dim;
            for (long i = 0; i < s.source_lengths[sentence] * 2 * dim; i++) cell[i] = source[i];
        }
    }
}

// The hidden states of a model for the newest tokens of hypotheses.
template <class Number>
static void decode_rows(const Search& s, long model, const std::vector<long>& rows, float* x) {
    const Beams& b = s.beams;
    const Model& m = *s.models[model];
    Number* cells = (Number*)s.cells[model];
    const Places<Number> source = {
        rows.data(), s.source_lengths, nullptr, b.beam, s.longest, cells, s.cells_of_layer(), 1, s.longest,
    };
    const Places<Number> target = {
        rows.data(), b.lengths, b.history + b.positions, b.beam, b.positions,
        cells + b.sentences * s.longest * 2 * m.decoder.dim, s.cells_of_layer(), b.sentences * b.beam, b.beam,
    };
    decode(m.decoder, m.target, b.tokens, target, source, x, rows.size());
}

// log(exp(x) + exp(y)), NaN if one of them is.
static float log_sum(float x, float y) {
    const float gap = std::fabs(x - y);
    return gap < INFINITY ? std::max(x, y) + std::log1p(std::exp(-gap)) : gap == gap ? std::max(x, y) : x + y;
}

// The logits of a block of rows; with several models log(sum of p / count). `others` is scratch memory.
static void mean_logits(
    const Search& s, const std::vector<float*>& hidden, long row, long rows, float* logits, float* others
) {
    for (long m = 0; m < s.count; m++) {
        const Output& output = s.models[m]->output;
        const long stride = output.product->outputs;
        float* model_logits = m ? others : logits;
        output.logits(model_logits, hidden[m] + row * s.models[m]->decoder.dim, rows);
        for (long i = 0; s.count > 1 && i < rows; i++) {
            float *row_logits = model_logits + i * stride, *sum = logits + i * stride;
            const float normalizer =
                normalizer_of(row_logits, output.vocabulary, stride, true) + std::log((float)s.count);
            for (long token = 0; token < output.vocabulary; token++) {
                const float x = row_logits[token] - normalizer;
                sum[token] = m ? log_sum(sum[token], x) : x;
            }
        }
    }
}

// Extend all hypotheses by at most `steps` tokens; return whether any is active.
static bool advance_all(const Search& s, long steps) {
    const Beams& b = s.beams;
    const Rules& rules = s.rules;
    const long stride = s.models[0]->output.product->outputs, vocabulary = s.models[0]->output.vocabulary;
    const long most = b.sentences * b.beam, block = std::min(most, LOGIT_ROWS);
    long dims = 0;
    for (long m = 0; m < s.count; m++) dims += s.models[m]->decoder.dim;
    const Space states(most * dims), logits(block * stride), others(s.count > 1 ? block * stride : 0);
    std::vector<long> rows;
    std::vector<Candidate> best;
    for (;; steps--) {
        rows.clear();
        for (long place = 0; place < most; place++)
            if (b.log_probs[place] > -INFINITY) rows.push_back(place);
        const long count = rows.size();
        if (!count || !steps) return count;
        std::vector<float*> hidden;
        float* x = states.numbers;
        for (long m = 0; m < s.count; x += count * s.models[m++]->decoder.dim) {
            hidden.push_back(x);
            (s.models[m]->has_bf16_cells ? decode_rows<Bfloat16> : decode_rows<float>)(s, m, rows, x);
        }
        best.resize(count * rules.candidates);
        Candidate* next = best.data();
        for (long row = 0; row < count; row++, next += rules.candidates) {
            if (row % block == 0)
                mean_logits(s, hidden, row, std::min(block, count - row), logits.numbers, others.numbers);
            float* row_logits = logits.numbers + row % block * stride;
            const float normalizer = normalizer_of(row_logits, vocabulary, stride, rules.as_log_probs);
            const long place = rows[row];
            long forced = s.forced(place);
            if (forced < 0) s.forbid_repeated(row_logits, place);
            if (forced < 0 && rules.temperature && normalizer == normalizer)
                forced = draw(row_logits, vocabulary, s.number_of(place), rules);
            best_tokens(row_logits, forced, stride, next, rules.candidates);
            for (long i = 0; i < rules.candidates; i++) next[i].log_prob -= normalizer;
        }
        if (rules.extends_each)
            extend_each(b, rows, best.data());
        else
            advance(b, rows, best.data(), rules);
    }
}

extern "C" {
// Encode all sources, at most about `tokens` at a time; start one hypothesis per sentence, in sampling `beam`.
long begin_search(const Search& s, long tokens) {
    return unless_out_of_ram([&] {
        const Beams& b = s.beams;
        const long* offsets = s.sources.offsets;
        for (long first = 0, end = 0; first < b.sentences; first = end) {
            while (end < b.sentences && (end == first || offsets[end + 1] - offsets[first] <= tokens)) end++;
            for (long m = 0; m < s.count; m++)
                (s.models[m]->has_bf16_cells ? encode_sources<Bfloat16> : encode_sources<float>)(s, m, first, end);
        }
        for (long sentence = 0; sentence < b.sentences; sentence++) {
            b.lengths[sentence] = 0;  // so that <s> is added
            for (long place = 0; place < b.beam; place++)
                b.extend(sentence, place, place && !s.rules.temperature ? -INFINITY : 0, BOS);
            b.lengths[sentence] = 1;
            b.forget(sentence);
        }
        return 0;
    });
}

// Extend all hypotheses by at most `steps` tokens; return whether any is active.
long continue_search(const Search& s, long steps) {
    return unless_out_of_ram([&] { return advance_all(s, steps); });
}
}
