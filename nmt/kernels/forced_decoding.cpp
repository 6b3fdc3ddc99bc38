// Forced decoding: the log-probabilities of given translations, and attention to their sources.
#include "model.h"

struct Pairs {
    const long *source_ids, *source_offsets;            // with </s>; (pairs + 1) where each begins, and their number
    const long *target_ids, *labels, *target_offsets;  // of <s> and the target, and of the target and </s>
    long count, longest;                                // rows of the longest side
    const long *heads, heads_count;                     // see `Source`
    float *log_probs, *weights;                         // of all labels
    float* scratch;
};

// Write the embeddings of all sentences; return their offsets and sizes.
static RowsAttention begin(
    const Embedding& embedding, const Stack& stack, const Pairs& p, const long* ids, const long* offsets, float* x
) {
    for (long sentence = 0, row = 0; sentence < p.count; sentence++)
        for (; row < offsets[sentence + 1]; row++)
            embedding.write(x + row * stack.dim, ids[row], row - offsets[sentence], stack.dim);
    RowsAttention rows{};
    rows.query_offsets = rows.key_offsets = offsets, rows.sentences = p.count, rows.longest = p.longest;
    rows.heads = stack.heads, rows.width = stack.dim / stack.heads, rows.threads = 1;
    return rows;
}

// Scratch has memory, keys and values of a layer, hidden states, logits of a block, and what the layers need.
extern "C" void force(const Model& m, const Pairs& p) {
    const long dim = m.decoder.dim, sources = p.source_offsets[p.count], targets = p.target_offsets[p.count];
    const long stride = m.output.product->outputs, block = std::min(targets, BLOCK);
    float *memory = p.scratch, *keys_values = memory + sources * dim, *x = keys_values + sources * 2 * dim;
    float *logits = x + targets * dim, *rest = logits + block * stride;
    const RowsAttention of_sources = begin(m.source, m.encoder, p, p.source_ids, p.source_offsets, memory);
    pass_rows(m.encoder, of_sources, memory, rest, nullptr);
    const Source source = {memory, m.key_values, keys_values, p.source_offsets, p.heads, p.heads_count, p.weights};
    const RowsAttention of_targets = begin(m.target, m.decoder, p, p.target_ids, p.target_offsets, x);
    pass_rows(m.decoder, of_targets, x, rest, &source);
    for (long row = 0; row < targets; row += block) {
        const long end = std::min(targets, row + block);
        m.output.logits(logits, x + row * dim, rest, end - row);
        const float* of_row = logits;
        for (long i = row; i < end; i++, of_row += stride)
            p.log_probs[i] = of_row[p.labels[i]] - normalizer_of(of_row, m.output.vocabulary, stride, true);
    }
}
