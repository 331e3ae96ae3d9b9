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
	"time"
)

var (
	errVersion = errors.New("it was made by another version")
	errBroken  = errors.New("it is broken")
)

// UnpackCheckpoint that PackCheckpoint made. An error says that it is of no use.
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
	return c, nil
}

// maximum is the highest value of a column, and its index; -1: the column is empty.
type maximum struct {
	at    int
	value float64
}

// restore the highest value. The middle of its bucket may be higher, and others are in that bucket too.
func (m maximum) restore(values []float64) {
	for i, v := range values {
		if v > m.value {
			values[i] = m.value
		}
	}
	values[m.at] = m.value
}

func (m *maximum) read(r *bytes.Reader, steps int) error {
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
