// Forced decoding: the log-probabilities of given translations, and attention to their sources.
#include "model.h"

struct Pairs {
    const long *source_ids, *source_offsets;            // with </s>; (pairs + 1) first row of each, and their number
    const long *target_ids, *labels, *target_offsets;  // <s> and the target; the target and </s>; as above
    long count;
    float *log_probs, *weights;                         // of all labels; see `Source`
};

extern "C" long force(const Model& m, const Pairs& p) {
    return unless_out_of_ram([&] {
        const long dim = m.decoder.dim, sources = p.source_offsets[p.count], targets = p.target_offsets[p.count];
        const long stride = m.output.product->outputs, block = std::min(targets, LOGIT_ROWS);
        const Space memory(sources * dim), keys_values(sources * 2 * dim), hidden(targets * dim);
        const Space logits(block * stride);
        pass_rows(
            m.encoder, embed(m.source, m.encoder, p.source_ids, p.source_offsets, p.count, memory.numbers),
            memory.numbers, nullptr
        );
        const Source source = {memory.numbers, m.key_values, keys_values.numbers, p.source_offsets, p.weights};
        pass_rows(
            m.decoder, embed(m.target, m.decoder, p.target_ids, p.target_offsets, p.count, hidden.numbers),
            hidden.numbers, &source
        );
        for (long row = 0; row < targets; row += block) {
            const long end = std::min(targets, row + block);
            m.output.logits(logits.numbers, hidden.numbers + row * dim, end - row);
            const float* row_logits = logits.numbers;
            for (long i = row; i < end; i++, row_logits += stride)
                p.log_probs[i] = row_logits[p.labels[i]] - normalizer_of(row_logits, m.output.vocabulary, stride, true);
        }
        return 0;
    });
}
