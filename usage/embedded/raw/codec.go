package raw

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/prometheus/prometheus/model/labels"
)

// ErrBroken says that what is on disk is not what was written.
var ErrBroken = errors.New("it is broken")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

func broken(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrBroken, fmt.Sprintf(format, args...))
}

func putString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func putLabels(b []byte, of labels.Labels) []byte {
	b = binary.AppendUvarint(b, uint64(of.Len()))
	of.Range(func(l labels.Label) { b = putString(putString(b, l.Name), l.Value) })
	return b
}

// cursor reads what was encoded. Behind a mistake it reads nothing but zeros, and says so at the end.
type cursor struct {
	left []byte
	bad  bool
}

func (c *cursor) fail() { c.left, c.bad = nil, true }

func (c *cursor) uvarint() uint64 {
	v, n := binary.Uvarint(c.left)
	if n <= 0 {
		c.fail()
		return 0
	}
	c.left = c.left[n:]
	return v
}

func (c *cursor) varint() int64 {
	v, n := binary.Varint(c.left)
	if n <= 0 {
		c.fail()
		return 0
	}
	c.left = c.left[n:]
	return v
}

// count of things of which each takes a byte at least.
func (c *cursor) count() int {
	n := c.uvarint()
	if n > uint64(len(c.left)) {
		c.fail()
		return 0
	}
	return int(n)
}

func (c *cursor) bytes(n int) []byte {
	if n < 0 || n > len(c.left) {
		c.fail()
		return nil
	}
	b := c.left[:n]
	c.left = c.left[n:]
	return b
}

func (c *cursor) text() string { return string(c.bytes(c.count())) }

func (c *cursor) uint32() uint32 {
	b := c.bytes(4)
	if b == nil {
		return 0
	}
	return binary.LittleEndian.Uint32(b)
}

func (c *cursor) uint64() uint64 {
	b := c.bytes(8)
	if b == nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

func (c *cursor) labels(builder *labels.ScratchBuilder) labels.Labels {
	builder.Reset()
	for range c.count() {
		builder.Add(c.text(), c.text())
	}
	return builder.Labels()
}

// ended says whether everything was read, and nothing but what was written.
func (c *cursor) ended() bool { return !c.bad && len(c.left) == 0 }
