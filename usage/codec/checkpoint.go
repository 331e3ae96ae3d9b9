package codec

import (
	"bufio"
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"sync"
	"time"
)

// version of the packed form.
const version = 1

// maxSteps is more than any history window has: 90 days of minutes.
const maxSteps = 1 << 17

// Units of the columns: smaller values become 0.
const (
	cpuUnit    = 1e-4 // cores
	memoryUnit = 4096 // bytes
)

// Checkpoint is the usage of one container in consecutive steps; NaN if not measured. A slice is empty or has a value
// for every step.
//
// In packed form a value is the difference of its bucket to the previous one, compressed, because usage changes little
// from step to step. Packing takes the finest precision that fits, and stores which one. The highest value of each
// column is stored exactly. If even the coarsest buckets need too much space, several steps share their highest value.
type Checkpoint struct {
	// Step is the length of a step.
	Step time.Duration
	// First is the number of the step of each slice's first element; see usage.StepOf.
	First int64
	// CPU and Peak are in cores, Memory in bytes.
	CPU, Peak, Memory []float64
	// Start is the highest CPU usage of starts, in cores, which CPU and Peak leave out; 0: none is known.
	Start float32

	// Error is the largest relative error of an unpacked value. The highest values are exact, and values below 0.1
	// millicores or 4 KiB become 0.
	Error float64
	// Stride is how many steps share a value. PackCheckpoint reads neither Error nor Stride.
	Stride int
}

// precision of a packed checkpoint. Its index in precisions is stored.
type precision struct {
	error  float64
	stride int
}

// precisions lists the possible precisions, from fine to coarse. PackCheckpoint takes the first that fits. Entries are
// never changed or moved, only appended: stored checkpoints refer to them by index.
var precisions = []precision{
	{.0025, 1}, {.005, 1}, {.01, 1}, {.02, 1}, {.04, 1}, {.02, 2}, {.04, 2}, {.04, 4}, {.04, 8}, {.04, 16}, {.08, 32}, {.16, 64}, {.16, 128},
}

func (c Checkpoint) steps() int { return max(len(c.CPU), len(c.Peak), len(c.Memory)) }

// columns in the order in which they are stored.
func (c Checkpoint) columns() [3]column {
	return [3]column{{c.CPU, cpuUnit}, {c.Peak, cpuUnit}, {c.Memory, memoryUnit}}
}

// column has the values of one measure.
type column struct {
	values []float64
	unit   float64
}

// PackCheckpoint packs a checkpoint into at most most bytes, with the finest precision that fits. It returns nil for a
// checkpoint without any value, for one of more than maxSteps steps, and if not even the coarsest precision fits. It
// does not read Error and Stride of c.
func PackCheckpoint(c Checkpoint, most int) []byte {
	c = c.trimmed()
	if n := c.steps(); n == 0 || n > maxSteps {
		return nil
	}
	for i := range precisions {
		if packed := c.pack(i); len(packed) <= most {
			return packed
		}
	}
	return nil
}

// trimmed drops the steps before the first value and after the last one.
func (c Checkpoint) trimmed() Checkpoint {
	first, last := c.steps(), -1
	for _, of := range c.columns() {
		for i, v := range of.values {
			if !math.IsNaN(v) {
				first, last = min(first, i), max(last, i)
			}
		}
	}
	cut := func(values []float64) []float64 {
		if len(values) == 0 || last < 0 {
			return nil
		}
		return values[first : last+1]
	}
	c.First += int64(first)
	c.CPU, c.Peak, c.Memory = cut(c.CPU), cut(c.Peak), cut(c.Memory)
	return c
}

// pack writes the version and the precision, one byte each; step, first and number of steps; for each column the index
// of its highest value, -1 without one, and that value; the symbols of all columns, compressed; Start unless it is 0, which
// earlier releases do not read; and a checksum.
func (c Checkpoint) pack(with int) []byte {
	p := precisions[with]
	out := []byte{version, byte(with)}
	out = binary.AppendUvarint(out, uint64(c.Step.Milliseconds()))
	out = binary.AppendVarint(out, c.First)
	out = binary.AppendUvarint(out, uint64(c.steps()))
	var symbols []byte
	for _, of := range c.columns() {
		at, value := maxOf(of.values)
		out = binary.AppendVarint(out, int64(at))
		if at < 0 {
			continue
		}
		out = binary.LittleEndian.AppendUint64(out, math.Float64bits(value))
		symbols = of.appendSymbols(symbols, p)
	}
	out = append(out, deflate(symbols)...)
	if c.Start > 0 {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(c.Start))
	}
	return binary.LittleEndian.AppendUint32(out, crc32.ChecksumIEEE(out))
}

// maxOf returns the highest value and its index; -1 without a value.
func maxOf(values []float64) (at int, value float64) {
	at = -1
	for i, v := range values {
		if !math.IsNaN(v) && (at < 0 || v > value) {
			at, value = i, v
		}
	}
	return at, value
}

// Symbols of values: a gap, zero, or the difference of the bucket to the previous one, in zigzag from symbolFirst on.
// Each is a varint.
const (
	symbolGap = iota
	symbolZero
	symbolFirst
)

// appendSymbols appends one symbol per stride of steps, for the highest value among them.
func (c column) appendSymbols(to []byte, p precision) []byte {
	scale, last := newQuantiser(c.unit, p.error), int64(0)
	for i := 0; i < len(c.values); i += p.stride {
		switch at, v := maxOf(c.values[i:min(i+p.stride, len(c.values))]); {
		case at < 0:
			to = append(to, symbolGap)
		case v < c.unit:
			to = append(to, symbolZero)
		default:
			bucket := int64(scale.bucket(v))
			to = binary.AppendUvarint(to, symbolFirst+zigzag(bucket-last))
			last = bucket
		}
	}
	return to
}

// writers are reused, because one flate.Writer takes more memory than many histories.
var writers = sync.Pool{New: func() any {
	// The level is valid, so there is no error.
	w, _ := flate.NewWriter(nil, flate.DefaultCompression)
	return w
}}

func deflate(symbols []byte) []byte {
	var packed bytes.Buffer
	w := writers.Get().(*flate.Writer)
	defer writers.Put(w)
	w.Reset(&packed)
	// Writing to a buffer does not fail.
	_, _ = w.Write(symbols)
	_ = w.Close()
	return packed.Bytes()
}

var (
	errVersion = errors.New("unsupported version")
	errBroken  = errors.New("corrupt data")
)

// UnpackCheckpoint reads the result of PackCheckpoint. The bytes come from the API server, where a user may have
// changed them: a wrong version, checksum or number is an error, never a panic. The caller then continues without the
// checkpoint.
func UnpackCheckpoint(packed []byte) (Checkpoint, error) {
	if len(packed) > 0 && packed[0] != version {
		return Checkpoint{}, fmt.Errorf("%w: %d, not %d", errVersion, packed[0], version)
	}
	const sum = 4
	if len(packed) < 2+sum {
		return Checkpoint{}, errBroken
	}
	body := packed[:len(packed)-sum]
	if crc32.ChecksumIEEE(body) != binary.LittleEndian.Uint32(packed[len(body):]) {
		return Checkpoint{}, errBroken
	}
	return unpack(bytes.NewReader(body[1:]))
}

// unpack reads the part after the version, up to the checksum; see Checkpoint.pack. It validates every number.
func unpack(r *bytes.Reader) (Checkpoint, error) {
	with, _ := r.ReadByte()
	step, err1 := binary.ReadUvarint(r)
	first, err2 := binary.ReadVarint(r)
	steps, err3 := binary.ReadUvarint(r)
	if errors.Join(err1, err2, err3) != nil || int(with) >= len(precisions) || steps == 0 || steps > maxSteps ||
		step == 0 || step > uint64(math.MaxInt64/time.Millisecond) {
		return Checkpoint{}, errBroken
	}
	p := precisions[with]
	c := Checkpoint{Step: time.Duration(step) * time.Millisecond, First: first, Error: p.error, Stride: p.stride}
	var highest [3]maximum
	for i := range highest {
		if err := highest[i].read(r, int(steps)); err != nil {
			return Checkpoint{}, err
		}
	}
	symbols := bufio.NewReader(flate.NewReader(r))
	for i, values := range []*[]float64{&c.CPU, &c.Peak, &c.Memory} {
		if highest[i].at < 0 {
			continue
		}
		var err error
		if *values, err = readColumn(symbols, int(steps), c.columns()[i].unit, p); err != nil {
			return Checkpoint{}, err
		}
		highest[i].restore(*values)
	}
	if _, err := io.Copy(io.Discard, symbols); err == nil {
		c.Start = readStart(r)
	}
	return c, nil
}

// readStart reads Checkpoint.Start; 0: there is none.
func readStart(r *bytes.Reader) (start float32) {
	if err := binary.Read(r, binary.LittleEndian, &start); err != nil || !(start > 0 && start <= math.MaxFloat32) {
		return 0
	}
	return start
}

// maximum is the highest value of a column, and its index; -1: the column is empty.
type maximum struct {
	at    int
	value float64
}

// restore the highest value, and lower all values to at most it. The middle of its bucket may be higher, and other
// values may be in that bucket too.
func (m maximum) restore(values []float64) {
	for i, v := range values {
		if v > m.value {
			values[i] = m.value
		}
	}
	values[m.at] = m.value
}

// read the index and, unless it is -1, the value.
func (m *maximum) read(r *bytes.Reader, steps int) error {
	at, err := binary.ReadVarint(r)
	if err != nil || at < -1 || at >= int64(steps) {
		return errBroken
	}
	m.at = int(at)
	if at < 0 {
		return nil
	}
	if err := binary.Read(r, binary.LittleEndian, &m.value); err != nil || !(m.value >= 0) || math.IsInf(m.value, 1) {
		return errBroken
	}
	return nil
}

// readColumn reads what column.appendSymbols wrote.
func readColumn(symbols io.ByteReader, steps int, unit float64, p precision) ([]float64, error) {
	values := make([]float64, steps)
	scale, bucket := newQuantiser(unit, p.error), int64(0)
	for i := 0; i < steps; i += p.stride {
		symbol, err := binary.ReadUvarint(symbols)
		if err != nil {
			return nil, errBroken
		}
		v := math.NaN()
		switch {
		case symbol == symbolZero:
			v = 0
		case symbol >= symbolFirst:
			bucket += unzigzag(symbol - symbolFirst)
			v = scale.middle(float64(bucket))
			if math.IsInf(v, 0) || bucket < 0 {
				return nil, errBroken
			}
		}
		for j := i; j < min(i+p.stride, steps); j++ {
			values[j] = v
		}
	}
	return values, nil
}
