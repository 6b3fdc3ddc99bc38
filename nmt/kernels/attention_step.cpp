// Attention of one query of each hypothesis on CPUs with AVX-512. native.py compiles this file and describes the
// arguments.
#include <algorithm>
#include <cmath>
#include <cstring>

extern "C" __attribute__((simd("notinbranch"))) float expf(float);  // that of libmvec

constexpr long AHEAD = 3;  // keys are prefetched so many tokens before they are read

template <class To, class From>
static To bit_cast(From from) {
    To to;
    return std::memcpy(&to, &from, sizeof to), to;
}

struct Bfloat16 {
    unsigned short bits;  // the upper half of a float
    operator float() const { return bit_cast<float>((unsigned)bits << 16); }
    Bfloat16& operator=(float x) {  // to the nearest, ties to even
        const unsigned all = bit_cast<unsigned>(x);
        bits = (x != x ? 0x7fc00000 : all + 0x7fff + (all >> 16 & 1)) >> 16;
        return *this;
    }
};

struct Attention {  // of cells at a position, a sentence and a place, each a key and a value of heads · width numbers
    void* cells;
    const long *rows, *lengths;
    const int* ancestors;
    long* scratch;
    long of_position, of_sentence, of_place, of_ancestors, beam, longest, heads, width;
};

static void prefetch(const void* numbers, long bytes) {
    for (long i = 0; i < bytes; i += 64) __builtin_prefetch((const char*)numbers + i, 0, 2);
}

// Most of the time goes into reading keys and values. So all heads of a token, which lie side by side, are read
// together, and prefetched: tokens are far apart, and the hardware prefetches only what follows.
template <class Number>
static void attend(const Attention& a, float* out, const float* queries, const float* newest, long stride, long rows) {
    long* visible = a.scratch;                         // (longest) where the cells are
    float* weights = (float*)(a.scratch + a.longest);  // (heads, longest)
    Number* cells = (Number*)a.cells;
    const long dim = a.heads * a.width;
    for (long row = 0; row < rows; row++, queries += stride, out += dim, newest += newest ? stride : 0) {
        const long sentence = a.rows[row] / a.beam, count = std::min(a.lengths[sentence], a.longest);
        const int* ancestors = a.ancestors ? a.ancestors + a.rows[row] * a.of_ancestors : nullptr;
        for (long i = 0; i < count; i++)
            visible[i] = i * a.of_position + sentence * a.of_sentence + (ancestors ? ancestors[i] * a.of_place : 0);
        if (newest) {
            Number* own = cells + visible[count - 1];
            for (long j = 0; j < 2 * dim; j++) own[j] = newest[j];
        }
        for (long i = 0; i < count; i++) {
            prefetch(cells + visible[std::min(i + AHEAD, count - 1)], dim * sizeof(Number));
            prefetch(cells + visible[i] + dim, dim * sizeof(Number));
            for (long head = 0; head < a.heads; head++) {
                const Number* key = cells + visible[i] + head * a.width;
                float sum = 0;
                for (long j = 0; j < a.width; j++) sum += queries[head * a.width + j] * (float)key[j];
                weights[head * a.longest + i] = sum / std::sqrt((float)a.width);
            }
        }
        for (long head = 0; head < a.heads; head++) {
            float *own_weights = &weights[head * a.longest], largest = -INFINITY, total = 0;
            for (long i = 0; i < count; i++) largest = std::max(largest, own_weights[i]);
            for (long i = 0; i < count; i++) total += own_weights[i] = expf(own_weights[i] - largest);
            for (long i = 0; i < count; i++) own_weights[i] /= total;
        }
        std::fill(out, out + dim, 0);
        for (long i = 0; i < count; i++)
            for (long head = 0; head < a.heads; head++) {
                const Number* value = cells + visible[i] + dim + head * a.width;
                const float weight = weights[head * a.longest + i];
                for (long j = 0; j < a.width; j++) out[head * a.width + j] += weight * (float)value[j];
            }
    }
}

extern "C" {
void attend_fp32(const Attention& a, float* out, const float* queries, const float* newest, long stride, long rows) {
    attend<float>(a, out, queries, newest, stride, rows);
}

void attend_bf16(const Attention& a, float* out, const float* queries, const float* newest, long stride, long rows) {
    attend<Bfloat16>(a, out, queries, newest, stride, rows);
}
}
