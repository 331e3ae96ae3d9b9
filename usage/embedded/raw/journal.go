package raw

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/prometheus/prometheus/model/labels"
)

// mostRecord bounds a record of the journal.
const mostRecord = 64 << 20

// journal has what is in no pack yet, record by record: its length, its checksum, and the samples of one batch. A series'
// labels stand where it comes first. What a crash tore off at the end is cut off.
type journal struct {
	file *os.File
	// known is how many series have stood in it.
	known  uint64
	record []byte
}

// openJournal reads what a journal has into a buffer, and goes on behind it. What cannot be read is cut off and counted
// in bytes. ErrUnread says that a read failed, which is no end.
func openJournal(volume *Volume, path string, into *buffer) (_ *journal, lost int64, err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, file.Close())
		}
	}()
	whole, err := replayFile(volume, path, into)
	if err != nil {
		return nil, 0, fmt.Errorf("reading the journal: %w", err)
	}
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, 0, err
	}
	if err := file.Truncate(whole); err != nil {
		return nil, 0, err
	}
	_, err = file.Seek(whole, io.SeekStart)
	return &journal{file: file, known: uint64(len(into.series))}, size - whole, err
}

func replayFile(volume *Volume, path string, into *buffer) (whole int64, err error) {
	file, err := volume.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	from := io.NewSectionReader(inTime{volume, file}, 0, math.MaxInt64)
	whole, err = replay(bufio.NewReaderSize(from, 1<<20), into)
	if err != nil && !errors.Is(err, os.ErrPermission) {
		err = unread(context.Background(), path, err)
	}
	return whole, err
}

// inTime reads a file of a volume as that is read.
type inTime struct {
	volume *Volume
	file   File
}

// ReadAt answers with ErrHangs where the volume does not answer.
func (r inTime) ReadAt(b []byte, at int64) (n int, err error) {
	return r.volume.readAt(context.Background(), r.file, b, at)
}

// replay reads records up to the first that is not whole. It says how many bytes are.
func replay(from io.Reader, into *buffer) (whole int64, err error) {
	var byID []labels.Labels
	var head [8]byte
	for {
		if _, err := io.ReadFull(from, head[:]); err != nil {
			return whole, unlessEnd(err)
		}
		size := binary.LittleEndian.Uint32(head[:4])
		if size > mostRecord {
			return whole, nil
		}
		record := make([]byte, size)
		if _, err := io.ReadFull(from, record); err != nil {
			return whole, unlessEnd(err)
		}
		if checksum(record) != binary.LittleEndian.Uint32(head[4:]) {
			return whole, nil
		}
		entries, known, good := entriesOf(record, byID)
		if !good {
			return whole, nil
		}
		byID = known
		into.add(entries)
		whole += int64(len(head)) + int64(size)
	}
}

func unlessEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// entriesOf a record, and the series that are known after it by their ids.
func entriesOf(record []byte, byID []labels.Labels) (_ []Entry, _ []labels.Labels, good bool) {
	c := cursor{left: record}
	builder := labels.NewScratchBuilder(8)
	last := int64(0)
	entries := make([]Entry, c.count())
	for i := range entries {
		id := c.uvarint()
		if id == uint64(len(byID)) {
			byID = append(byID, c.labels(&builder))
		}
		if id >= uint64(len(byID)) {
			return nil, nil, false
		}
		last += c.varint()
		entries[i] = Entry{Labels: byID[id], Sample: Sample{At: last, Value: math.Float64frombits(c.uint64())}}
	}
	return entries, byID, c.ended()
}

// write a batch whose series the buffer knows already.
func (j *journal) write(entries []Entry, of *buffer) error {
	b := append(j.record[:0], make([]byte, 8)...) //nolint:gocritic // it becomes the record again
	b = binary.AppendUvarint(b, uint64(len(entries)))
	last, known := int64(0), j.known
	for _, e := range entries {
		id := of.series[e.Labels].id
		b = binary.AppendUvarint(b, id)
		if id == known {
			b = putLabels(b, e.Labels)
			known++
		}
		b = binary.AppendVarint(b, e.At-last)
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(e.Value))
		last = e.At
	}
	binary.LittleEndian.PutUint32(b[:4], uint32(len(b)-8))
	binary.LittleEndian.PutUint32(b[4:8], checksum(b[8:]))
	j.record = b
	if _, err := j.file.Write(b); err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	j.known = known
	return nil
}

// empty it: everything is in packs.
func (j *journal) empty() error {
	j.known, j.record = 0, nil
	if err := j.file.Truncate(0); err != nil {
		return fmt.Errorf("emptying the journal: %w", err)
	}
	_, err := j.file.Seek(0, io.SeekStart)
	return err
}

func (j *journal) close() error { return j.file.Close() }
