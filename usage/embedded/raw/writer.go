package raw

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// A pack is a file of series in the order of their namespaces, metrics and other labels, in groups: the chunks of a
// group's series, one series after the other, then what tells of them. At the end stands the directory of the groups,
// then where that is.
const (
	// magic stands at the beginning and at the end of a pack, and names the version of the format.
	magic = "attune/1"
	// perGroup is the most series of a group, perChunk the most samples of a chunk. Prometheus uses chunks of 120
	// samples too.
	perGroup, perChunk = 256, 120
	// footerSize: offset, length and checksum of the directory, and the magic.
	footerSize = 8 + 4 + 4 + len(magic)
	// packSuffix of a whole pack, tempSuffix of one that is being written.
	packSuffix, tempSuffix = ".samples", ".temp"

	namespaceLabel = "namespace"
)

// byPlace is the order of series in a pack: by namespace, then by metric, then by all labels. Queries name a
// namespace and a metric, so what they need stands together.
func byPlace(a, b labels.Labels) int {
	return cmp.Or(
		strings.Compare(a.Get(namespaceLabel), b.Get(namespaceLabel)),
		strings.Compare(a.Get(labels.MetricName), b.Get(labels.MetricName)),
		labels.Compare(a, b),
	)
}

// writer writes one pack, from front to back, into a temporary file. finish renames the file. It is used by one
// goroutine.
// The directory is at the end of the file because the offsets of the groups are only known then. A reader
// therefore begins with the last footerSize bytes.
type writer struct {
	dir    string
	volume *Volume
	file   *os.File
	out    *bufio.Writer
	// at is the number of bytes written so far, which is the offset of the next one.
	at int64

	// series are those of the group that is being written, perGroup at most. began is the offset of their first
	// chunk.
	series []told
	// groups are those that are complete. min and max are the times of their samples, valid where something is
	// true.
	groups    []group
	began     int64
	min, max  int64
	something bool
}

// told describes one series within the body of its group. checksum is that of all of its chunks together.
type told struct {
	labels   labels.Labels
	chunks   []chunk
	checksum uint32
}

// chunk describes one chunk of a series: the times of its first and last sample in Unix milliseconds, and its
// length in bytes. Its samples are in the XOR encoding of Prometheus (chunkenc), which follows the Gorilla paper.
type chunk struct {
	min, max int64
	length   int
}

// group is an entry of the directory. Its chunks begin at the offset begin, and its body, which describes the
// series, at the offset at. namespaces and metrics are those of its first and its last series: with them a query
// skips groups that cannot match, without a read.
type group struct {
	begin, at           int64
	length, checksum    uint32
	min, max            int64
	namespaces, metrics [2]string
}

// newWriter begins a pack in a temporary file of the folder. volume reads the pack when it is finished. The caller
// calls abandon in the end, whatever happens.
func newWriter(dir string, volume *Volume) (*writer, error) {
	file, err := os.CreateTemp(dir, "*"+tempSuffix)
	if err != nil {
		return nil, err
	}
	w := &writer{dir: dir, volume: volume, file: file, out: bufio.NewWriterSize(file, 1<<18)}
	return w, w.write([]byte(magic))
}

// write appends bytes to the file and counts them.
func (w *writer) write(b []byte) error {
	n, err := w.out.Write(b)
	w.at += int64(n)
	return err
}

// add writes a series. Series must come in the order byPlace, samples in the order of their times. A series
// without samples is left out. An error may be that of the iterator.
func (w *writer) add(of labels.Labels, samples chunkenc.Iterator) error {
	s := told{labels: of}
	var data []byte
	for value := samples.Next(); value != chunkenc.ValNone; {
		encoded := chunkenc.NewXORChunk()
		appender, err := encoded.Appender()
		if err != nil {
			return err
		}
		var c chunk
		for n := 0; n < perChunk && value != chunkenc.ValNone; n++ {
			at, v := samples.At()
			appender.Append(0, at, v)
			if n == 0 {
				c.min = at
			}
			c.max = at
			value = samples.Next()
		}
		c.length = len(encoded.Bytes())
		data = append(data, encoded.Bytes()...)
		s.chunks = append(s.chunks, c)
	}
	if err := samples.Err(); err != nil || len(s.chunks) == 0 {
		return err
	}
	s.checksum = checksum(data)
	return w.put(s, data)
}

// put writes the chunks of a series and ends the group when it is full.
func (w *writer) put(s told, data []byte) error {
	if len(w.series) == 0 {
		w.began = w.at
	}
	w.series = append(w.series, s)
	if err := w.write(data); err != nil {
		return err
	}
	if len(w.series) < perGroup {
		return nil
	}
	return w.endGroup()
}

// endGroup writes the body of the group that is being written and adds the group to the directory. It does nothing
// for a group without series.
func (w *writer) endGroup() error {
	if len(w.series) == 0 {
		return nil
	}
	first, last := w.series[0], w.series[len(w.series)-1]
	g := group{
		begin: w.began, at: w.at, min: first.chunks[0].min, max: first.chunks[0].max,
		namespaces: [2]string{first.labels.Get(namespaceLabel), last.labels.Get(namespaceLabel)},
		metrics:    [2]string{first.labels.Get(labels.MetricName), last.labels.Get(labels.MetricName)},
	}
	for _, s := range w.series {
		g.min, g.max = min(g.min, s.chunks[0].min), max(g.max, s.chunks[len(s.chunks)-1].max)
	}
	body := tell(w.series)
	g.length, g.checksum = uint32(len(body)), checksum(body)
	if !w.something {
		w.min, w.max, w.something = g.min, g.max, true
	}
	w.min, w.max = min(w.min, g.min), max(w.max, g.max)
	w.groups, w.series = append(w.groups, g), w.series[:0]
	return w.write(body)
}

// tell encodes the body of a group. Each label name and value is written once and referred to by number, because
// the series of a namespace share most of them. pack.parseGroup decodes it.
func tell(series []told) []byte {
	var texts, b []byte
	ids := map[string]uint64{}
	ref := func(s string) uint64 {
		id, known := ids[s]
		if !known {
			id = uint64(len(ids))
			ids[s] = id
			texts = putString(texts, s)
		}
		return id
	}
	b = binary.AppendUvarint(b, uint64(len(series)))
	for _, s := range series {
		b = binary.AppendUvarint(b, uint64(s.labels.Len()))
		s.labels.Range(func(l labels.Label) {
			b = binary.AppendUvarint(b, ref(l.Name))
			b = binary.AppendUvarint(b, ref(l.Value))
		})
		b = binary.LittleEndian.AppendUint32(b, s.checksum)
		b = binary.AppendUvarint(b, uint64(len(s.chunks)))
		last := int64(0)
		for _, c := range s.chunks {
			b = binary.AppendVarint(b, c.min-last)
			b = binary.AppendUvarint(b, uint64(c.max-c.min))
			b = binary.AppendUvarint(b, uint64(c.length))
			last = c.max
		}
	}
	return slices.Concat(binary.AppendUvarint(nil, uint64(len(ids))), texts, b)
}

// finish writes directory and footer, syncs, renames and opens the pack. It returns nil without an error for a
// pack without samples.
//
// The order matters: the file is synced before it gets its name, and the folder after that. A file with the suffix
// of a pack is therefore whole, even after the node has crashed at any moment.
func (w *writer) finish() (*pack, error) {
	if err := w.endGroup(); err != nil {
		return nil, err
	}
	if !w.something {
		w.abandon()
		return nil, nil
	}
	directory := directoryOf(w.groups)
	footer := binary.LittleEndian.AppendUint64(nil, uint64(w.at))
	footer = binary.LittleEndian.AppendUint32(footer, uint32(len(directory)))
	footer = binary.LittleEndian.AppendUint32(footer, checksum(directory))
	footer = append(footer, magic...)
	path := filepath.Join(w.dir, fmt.Sprintf("%013d-%013d-%s%s", w.min, w.max, unique(w.file.Name()), packSuffix))
	// Directory and footer come last and are synced together with the samples.
	if err := errors.Join(w.write(directory), w.write(footer), w.out.Flush(), w.file.Sync(), w.file.Close()); err != nil {
		return nil, err
	}
	// Only now the pack has a name under which Open finds it.
	if err := errors.Join(os.Rename(w.file.Name(), path), syncDir(w.dir)); err != nil {
		return nil, err
	}
	p, err := openPack(w.volume, path)
	if err != nil {
		// What it was made of is there still. The cause is said, and is not that of a pack that was there before.
		return nil, errors.Join(fmt.Errorf("reading what was just written: %s", err), os.Remove(path)) //nolint:errorlint // see above
	}
	return p, nil
}

// syncDir syncs a folder, so that a rename in it survives a crash of the node.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// unique returns the random part of a temporary file's name. It makes the names of two packs with the same times
// different.
func unique(temp string) string { return strings.TrimSuffix(filepath.Base(temp), tempSuffix) }

// directoryOf encodes the directory. pack.parseDirectory decodes it.
func directoryOf(groups []group) []byte {
	b := binary.AppendUvarint(nil, uint64(len(groups)))
	for _, g := range groups {
		b = binary.AppendUvarint(b, uint64(g.begin))
		b = binary.AppendUvarint(b, uint64(g.at))
		b = binary.AppendUvarint(b, uint64(g.length))
		b = binary.LittleEndian.AppendUint32(b, g.checksum)
		b = binary.AppendVarint(b, g.min)
		b = binary.AppendVarint(b, g.max)
		for _, text := range []string{g.namespaces[0], g.namespaces[1], g.metrics[0], g.metrics[1]} {
			b = putString(b, text)
		}
	}
	return b
}

// abandon closes and removes the temporary file. After finish it has no effect, because the file has another name
// then.
func (w *writer) abandon() {
	_ = w.file.Close()
	_ = os.Remove(w.file.Name())
}
