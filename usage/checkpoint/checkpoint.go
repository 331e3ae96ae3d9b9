// Package checkpoint packs the usage history of one container into a few bytes that tell when it used what:
// small enough to be stored with every recommendation, and good enough to go on recommending from.
//
// A value is stored as the nearest step of a scale whose steps are a fixed ratio apart, and the differences
// between neighbours are packed (DEFLATE): usage moves little from one step to the next. The ratio is the
// finest of a few with which all fits; the packed form says which, and with it how far a value can be off
// (History.Error). The highest value of each measure is stored as it is. Where not even the coarsest ratio
// is enough, several steps share a value, the highest of them (History.Stride).
package checkpoint

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

// Units of the measures: less is stored as nothing.
const (
	cpuUnit    = 1e-4 // cores
	memoryUnit = 4096 // bytes
)

// History is what one container used in consecutive steps; NaN where it was not measured. A slice is empty
// or has a value for every step.
type History struct {
	// Step is the length of a step, First the number of the first one; see usage.StepOf.
	Step  time.Duration
	First int64
	// CPU and Peak are in cores, Memory in bytes.
	CPU, Peak, Memory []float64

	// Error is how far an unpacked value can be off, as a part of it, but for the highest ones, which are
	// exact, and values below 0.1 millicores or 4 KiB, which become 0. Stride is how many steps share a
	// value, the highest of them. Pack does not read either.
	Error  float64
	Stride int
}

// precision is what a history may be packed with.
type precision struct {
	error  float64
	stride int
}

// precisions from fine to coarse.
var precisions = []precision{
	{.0025, 1}, {.005, 1}, {.01, 1}, {.02, 1}, {.04, 1}, {.02, 2}, {.04, 2}, {.04, 4}, {.04, 8}, {.04, 16}, {.08, 32}, {.16, 64}, {.16, 128},
}

func (p precision) ratio() float64 { return 2 * math.Log1p(p.error) }

func (h History) steps() int { return max(len(h.CPU), len(h.Peak), len(h.Memory)) }

func (h History) measures() [3]measure {
	return [3]measure{{h.CPU, cpuUnit}, {h.Peak, cpuUnit}, {h.Memory, memoryUnit}}
}

// measure is the values of one kind.
type measure struct {
	values []float64
	unit   float64
}

// Pack into at most so many bytes. It returns nil for a history without any value, or one that is too long.
func Pack(h History, most int) []byte {
	h = h.trimmed()
	if n := h.steps(); n == 0 || n > maxSteps {
		return nil
	}
	for i := range precisions {
		if packed := h.pack(i); len(packed) <= most {
			return packed
		}
	}
	return nil
}

// trimmed leaves out the steps before the first value and after the last one.
func (h History) trimmed() History {
	first, last := h.steps(), -1
	for _, m := range h.measures() {
		for i, v := range m.values {
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
	h.First += int64(first)
	h.CPU, h.Peak, h.Memory = cut(h.CPU), cut(h.Peak), cut(h.Memory)
	return h
}

func (h History) pack(with int) []byte {
	p := precisions[with]
	out := []byte{version, byte(with)}
	out = binary.AppendUvarint(out, uint64(h.Step.Milliseconds()))
	out = binary.AppendVarint(out, h.First)
	out = binary.AppendUvarint(out, uint64(h.steps()))
	var symbols []byte
	for _, m := range h.measures() {
		at, highest := m.highest()
		out = binary.AppendVarint(out, int64(at))
		if at < 0 {
			continue
		}
		out = binary.LittleEndian.AppendUint64(out, math.Float64bits(highest))
		symbols = m.appendSymbols(symbols, p)
	}
	out = append(out, deflate(symbols)...)
	return binary.LittleEndian.AppendUint32(out, crc32.ChecksumIEEE(out))
}

// highest value and where it is; -1: there is none.
func (m measure) highest() (at int, highest float64) {
	at = -1
	for i, v := range m.values {
		if !math.IsNaN(v) && (at < 0 || v > highest) {
			at, highest = i, v
		}
	}
	return at, highest
}

// Symbols of values: none, nothing, or the difference to the last one on the scale, zigzag from first on.
const (
	symbolGap = iota
	symbolZero
	symbolFirst
)

func (m measure) appendSymbols(to []byte, p precision) []byte {
	last := int64(0)
	for i := 0; i < len(m.values); i += p.stride {
		shared := measure{values: m.values[i:min(i+p.stride, len(m.values))]}
		switch at, v := shared.highest(); {
		case at < 0:
			to = append(to, symbolGap)
		case v < m.unit:
			to = append(to, symbolZero)
		default:
			mark := int64(math.Round(math.Log(v/m.unit) / p.ratio()))
			difference := mark - last
			last = mark
			to = binary.AppendUvarint(to, symbolFirst+uint64(difference<<1^difference>>63))
		}
	}
	return to
}

// writers are used again: one takes more memory than many histories.
var writers = sync.Pool{New: func() any {
	// The level is valid.
	w, _ := flate.NewWriter(nil, flate.DefaultCompression)
	return w
}}

func deflate(symbols []byte) []byte {
	var packed bytes.Buffer
	w := writers.Get().(*flate.Writer)
	defer writers.Put(w)
	w.Reset(&packed)
	// A buffer takes everything.
	_, _ = w.Write(symbols)
	_ = w.Close()
	return packed.Bytes()
}

var (
	errVersion = errors.New("it was made by another version")
	errBroken  = errors.New("it is broken")
)

// Unpack what Pack made. An error says that it is of no use.
func Unpack(packed []byte) (History, error) {
	if len(packed) > 0 && packed[0] != version {
		return History{}, fmt.Errorf("%w: %d, not %d", errVersion, packed[0], version)
	}
	const sum = 4
	if len(packed) < 2+sum {
		return History{}, errBroken
	}
	body := packed[:len(packed)-sum]
	if crc32.ChecksumIEEE(body) != binary.LittleEndian.Uint32(packed[len(body):]) {
		return History{}, errBroken
	}
	return unpack(bytes.NewReader(body[1:]))
}

func unpack(r *bytes.Reader) (History, error) {
	with, _ := r.ReadByte()
	step, err1 := binary.ReadUvarint(r)
	first, err2 := binary.ReadVarint(r)
	steps, err3 := binary.ReadUvarint(r)
	if errors.Join(err1, err2, err3) != nil || int(with) >= len(precisions) || steps == 0 || steps > maxSteps ||
		step == 0 || step > uint64(math.MaxInt64/time.Millisecond) {
		return History{}, errBroken
	}
	p := precisions[with]
	h := History{Step: time.Duration(step) * time.Millisecond, First: first, Error: p.error, Stride: p.stride}
	var highest [3]mark
	for i := range highest {
		if err := highest[i].read(r, int(steps)); err != nil {
			return History{}, err
		}
	}
	symbols := bufio.NewReader(flate.NewReader(r))
	for i, values := range []*[]float64{&h.CPU, &h.Peak, &h.Memory} {
		if highest[i].at < 0 {
			continue
		}
		var err error
		unit := [...]float64{cpuUnit, cpuUnit, memoryUnit}[i]
		if *values, err = readValues(symbols, int(steps), unit, p); err != nil {
			return History{}, err
		}
		highest[i].restore(*values)
	}
	return h, nil
}

// mark is where a measure's highest value is; -1: the measure is not there.
type mark struct {
	at    int
	value float64
}

// restore the highest value, which the scale may have moved past.
func (m mark) restore(values []float64) {
	for i, v := range values {
		if v > m.value {
			values[i] = m.value
		}
	}
	values[m.at] = m.value
}

func (m *mark) read(r *bytes.Reader, steps int) error {
	at, err := binary.ReadVarint(r)
	if err != nil || at < -1 || at >= int64(steps) {
		return errBroken
	}
	m.at = int(at)
	if at < 0 {
		return nil
	}
	var raw [8]byte
	if _, err := io.ReadFull(r, raw[:]); err != nil {
		return errBroken
	}
	m.value = math.Float64frombits(binary.LittleEndian.Uint64(raw[:]))
	if !(m.value >= 0) || math.IsInf(m.value, 1) {
		return errBroken
	}
	return nil
}

// readValues of one measure.
func readValues(symbols io.ByteReader, steps int, unit float64, p precision) ([]float64, error) {
	values := make([]float64, steps)
	last := int64(0)
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
			zigzag := symbol - symbolFirst
			last += int64(zigzag>>1) ^ -int64(zigzag&1)
			v = unit * math.Exp(float64(last)*p.ratio())
			if math.IsInf(v, 0) || last < 0 {
				return nil, errBroken
			}
		}
		for j := i; j < min(i+p.stride, steps); j++ {
			values[j] = v
		}
	}
	return values, nil
}
