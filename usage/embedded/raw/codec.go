package raw

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/prometheus/prometheus/model/labels"
)

// ErrBroken means that the bytes on disk are not those that were written: a checksum or a length is wrong.
var ErrBroken = errors.New("it is broken")

// castagnoli is the polynomial of CRC-32C, for which processors have an instruction.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum is the CRC-32C of bytes. It detects damage by the disk, not a change on purpose.
func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// broken returns an ErrBroken with details.
func broken(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrBroken, fmt.Sprintf(format, args...))
}

// putString appends a length as a varint and the bytes of the text. cursor.text reads it.
func putString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// putLabels appends the number of labels, then each name and value. cursor.labels reads it.
func putLabels(b []byte, of labels.Labels) []byte {
	b = binary.AppendUvarint(b, uint64(of.Len()))
	of.Range(func(l labels.Label) { b = putString(putString(b, l.Name), l.Value) })
	return b
}

// cursor decodes bytes from a file. After the first mistake it returns zeros and ended returns false, so that a
// decoder checks for errors once at its end. A count never exceeds the bytes that are left, so a broken file
// cannot make it allocate more than a small multiple of its own size.
type cursor struct {
	left []byte
	bad  bool
}

// fail marks the input as broken. All later reads return zero.
func (c *cursor) fail() { c.left, c.bad = nil, true }

// uvarint reads an unsigned varint.
func (c *cursor) uvarint() uint64 {
	v, n := binary.Uvarint(c.left)
	if n <= 0 {
		c.fail()
		return 0
	}
	c.left = c.left[n:]
	return v
}

// varint reads a signed varint in zigzag.
func (c *cursor) varint() int64 {
	v, n := binary.Varint(c.left)
	if n <= 0 {
		c.fail()
		return 0
	}
	c.left = c.left[n:]
	return v
}

// count reads a number of things of which each takes at least one byte.
func (c *cursor) count() int {
	n := c.uvarint()
	if n > uint64(len(c.left)) {
		c.fail()
		return 0
	}
	return int(n)
}

// bytes returns the next n bytes without a copy; nil where there are not as many.
func (c *cursor) bytes(n int) []byte {
	if n < 0 || n > len(c.left) {
		c.fail()
		return nil
	}
	b := c.left[:n]
	c.left = c.left[n:]
	return b
}

// text reads what putString wrote.
func (c *cursor) text() string { return string(c.bytes(c.count())) }

// uint32 reads 4 bytes, little endian.
func (c *cursor) uint32() uint32 {
	b := c.bytes(4)
	if b == nil {
		return 0
	}
	return binary.LittleEndian.Uint32(b)
}

// uint64 reads 8 bytes, little endian.
func (c *cursor) uint64() uint64 {
	b := c.bytes(8)
	if b == nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

// labels reads what putLabels wrote. The builder is reused from call to call.
func (c *cursor) labels(builder *labels.ScratchBuilder) labels.Labels {
	builder.Reset()
	for range c.count() {
		builder.Add(c.text(), c.text())
	}
	return builder.Labels()
}

// ended returns true where all bytes were read without a mistake. Decoders call it last.
func (c *cursor) ended() bool { return !c.bad && len(c.left) == 0 }
