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

// mostRecord bounds a record of the journal, in bytes. A greater length in the file is damage: without the bound,
// a broken length would make replay allocate up to 4 GiB.
const mostRecord = 64 << 20

// journal is the file with the samples that are in no pack yet. It is a list of records: 4 bytes length, 4 bytes
// checksum (CRC-32C), and the samples of one batch. A series is a number; its labels stand where the number comes
// first. What a crash tore off at the end is cut off by openJournal.
type journal struct {
	file *os.File
	// known is the number of series whose labels are in the file. It equals the number of series in the buffer
	// after each record.
	known uint64
	// record is memory of the last record, for the next one.
	record []byte
}

// openJournal reads a journal into a buffer and opens it for writing behind its last whole record. lost is the
// number of bytes that were cut off. The error is ErrUnread where a read failed: the file is not cut then, since
// its end was never seen.
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

// replayFile reads the journal through the volume, so that a hanging disk cannot block the start for ever. A
// missing right is not ErrUnread: the journal must not be put aside for it, because an administrator can correct
// the right.
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

// inTime is an io.ReaderAt that reads a file through its volume, with the volume's time limit.
type inTime struct {
	volume *Volume
	file   File
}

// ReadAt answers with ErrHangs where the volume does not answer.
func (r inTime) ReadAt(b []byte, at int64) (n int, err error) {
	return r.volume.readAt(context.Background(), r.file, b, at)
}

// replay reads records up to the first that is not whole, and returns how many bytes the whole ones take. A torn
// or broken record is no error: everything behind it is of no use, since a reader cannot know where the next
// record begins.
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

// unlessEnd turns the end of the file into nil, also in the middle of a record.
func unlessEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// entriesOf decodes a record. byID are the series of the records before; the result adds those that are new. good
// is false where the record does not decode as a whole, although its checksum is right.
func entriesOf(record []byte, byID []labels.Labels) (_ []Entry, _ []labels.Labels, good bool) {
	c := cursor{left: record}
	builder := labels.NewScratchBuilder(8)
	last := int64(0)
	entries := make([]Entry, c.count())
	for i := range entries {
		id := c.uvarint()
		// The next free number announces a new series, whose labels follow.
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

// write appends a batch as one record, with a single call of Write. The buffer must know all series of the batch
// (buffer.know), since the record refers to them by the buffer's numbers. It does not sync: a crash of the node,
// not of the process, may lose records.
func (j *journal) write(entries []Entry, of *buffer) error {
	// The first 8 bytes are for length and checksum, which are known last.
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
		// Times are differences to the sample before: samples of one scrape have nearly the same time.
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

// empty removes all records. It is called when the buffer is in packs that have been synced; called earlier, a
// crash in between would lose the samples.
// The buffer must be replaced by an empty one too, since numbers begin with 0 again.
func (j *journal) empty() error {
	j.known, j.record = 0, nil
	if err := j.file.Truncate(0); err != nil {
		return fmt.Errorf("emptying the journal: %w", err)
	}
	_, err := j.file.Seek(0, io.SeekStart)
	return err
}

// close closes the file. Its records stay for the next openJournal.
func (j *journal) close() error { return j.file.Close() }
