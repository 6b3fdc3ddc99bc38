// Forced decoding: the log-probabilities of given translations, and attention to their sources.
#include "model.h"

struct Pairs {
    Sentences sources, targets;  // the former with </s>, the latter with <s>
    const long* labels;          // the targets with </s>
    float *log_probs, *weights;  // of all labels; see `Source`
};

extern "C" long force(const Model& m, const Pairs& p) {
    return unless_out_of_ram([&] {
        const long dim = m.decoder.dim, rows = p.targets.rows();
        const long stride = m.output.product->outputs, block = std::min(rows, LOGIT_ROWS);
        const Space memory(p.sources.rows() * dim), hidden(rows * dim), logits(block * stride);
        pass_rows(m.encoder, m.source, p.sources, memory.numbers, nullptr);
        const Source source = {p.sources, memory.numbers, m.key_values, p.weights};
        pass_rows(m.decoder, m.target, p.targets, hidden.numbers, &source);
        for (long row = 0; row < rows; row += block) {
            const long end = std::min(rows, row + block);
            m.output.logits(logits.numbers, hidden.numbers + row * dim, end - row);
            const float* row_logits = logits.numbers;
            for (long i = row; i < end; i++, row_logits += stride)
                p.log_probs[i] = row_logits[p.labels[i]] - normalizer_of(row_logits, m.output.vocabulary, stride, true);
        }
        return 0;
    });
}
