// Package codec packs usage over time. It is pure: no clock, no lock, no input or output. It has two formats:
//
//   - A block holds a few steps of one measure and is unpacked in nanoseconds: histories are kept in memory as
//     blocks.
//   - A checkpoint holds the whole history of one container in about 2 KiB, as fine as fits: it is stored in the
//     API server.
//
// The way of a value into a block: BucketOf quantises it on a logarithmic scale, a predictor guesses the bucket
// from the buckets before, and the difference to the guess (the residual) is written in Rice code. A checkpoint
// does the same with simpler means: the residual is the difference to the bucket before, and DEFLATE compresses
// all of them. Start reading at block.go, then residuals.go and checkpoint.go.
//
// The methods, and where they come from:
//
//   - Buckets of a fixed ratio, so that the relative error is bounded: C. Masson, J. E. Rim, H. K. Lee, "DDSketch:
//     a fast and fully-mergeable quantile sketch with relative-error guarantees", PVLDB 12 (2019).
//   - Blocks of two hours, each unpacked by itself: T. Pelkonen et al., "Gorilla: a fast, scalable, in-memory time
//     series database", PVLDB 8 (2015). Gorilla keeps floats exactly, by XOR; here they are quantised.
//   - The better of two predictors, its residuals in Rice code with the best parameter of the block: T. Robinson,
//     "SHORTEN: simple lossless and near-lossless waveform compression", Cambridge CUED/F-INFENG/TR.156 (1994).
//   - Rice code: R. F. Rice, J. R. Plaunt, "Adaptive variable-length coding for efficient compression of
//     spacecraft television data", IEEE Trans. Communication Technology 19 (1971), a case of S. W. Golomb,
//     "Run-length encodings", IEEE Trans. Information Theory 12 (1966).
//   - The mean predictor, an exponentially weighted mean in integers: V. Jacobson, "Congestion avoidance and
//     control", SIGCOMM 1988, appendix A.
//   - Zigzag and varints: the encoding of Protocol Buffers. Checkpoints are compressed by DEFLATE (RFC 1951).
package codec
