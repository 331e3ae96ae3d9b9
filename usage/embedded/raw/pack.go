package raw

import (
	"context"
	"errors"
	"io"
	"math"
	"sync/atomic"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// pack is an open file of samples that never changes. Its descriptor is closed by the garbage collector when no
// query uses it any more, or by Store.Close. A pack that was removed from the folder is readable until then.
type pack struct {
	path   string
	volume *Volume
	file   File
	size   int64
	// groups is the directory, in the order of the file. It stays in memory; the bodies of the groups do not.
	groups []group
	// min and max are the times of the first and the last sample, in Unix milliseconds.
	min, max int64
	// failed is true once a read of this file has failed although the volume answers. Queries skip the pack from
	// then on, and Store.leaveOut moves it to left.
	failed atomic.Bool
}

// openPack opens a file and reads its directory. Errors that are ErrBroken or ErrUnread concern this file; others
// mean that the disk or the process is in trouble.
// The bodies of the groups are checked when they are read (see verify).
func openPack(volume *Volume, path string) (_ *pack, err error) {
	ctx := context.Background()
	file, err := volume.Open(path)
	if err != nil {
		return nil, unread(ctx, path, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, file.Close())
		}
	}()
	info, err := file.Stat()
	if err != nil {
		return nil, unread(ctx, path, err)
	}
	// A named pipe, for example, would block the read.
	if !info.Mode().IsRegular() {
		return nil, unread(ctx, path, errors.New("it is no file"))
	}
	p := &pack{path: path, volume: volume, file: file, size: info.Size()}
	return p, p.readDirectory(ctx)
}

// readDirectory reads the footer, then the directory that it points to, and checks both.
func (p *pack) readDirectory(ctx context.Context) error {
	if p.size < int64(len(magic)+footerSize) {
		return broken("it has %d bytes", p.size)
	}
	footer, err := p.read(ctx, p.size-int64(footerSize), footerSize)
	if err != nil {
		return err
	}
	c := cursor{left: footer}
	at, length, sum := c.uint64(), c.uint32(), c.uint32()
	if string(c.left) != magic || at > uint64(p.size) || int64(at)+int64(length)+int64(footerSize) != p.size {
		return broken("its end is missing")
	}
	directory, err := p.read(ctx, int64(at), int(length))
	if err != nil {
		return err
	}
	if checksum(directory) != sum {
		return broken("its directory")
	}
	return p.parseDirectory(directory)
}

// parseDirectory decodes what directoryOf has encoded, and sets groups, min and max.
func (p *pack) parseDirectory(directory []byte) error {
	c := cursor{left: directory}
	p.groups = make([]group, c.count())
	for i := range p.groups {
		g := &p.groups[i]
		g.begin, g.at, g.length, g.checksum = int64(c.uvarint()), int64(c.uvarint()), uint32(c.uvarint()), c.uint32()
		g.min, g.max = c.varint(), c.varint()
		g.namespaces, g.metrics = [2]string{c.text(), c.text()}, [2]string{c.text(), c.text()}
		if i == 0 {
			p.min, p.max = g.min, g.max
		}
		p.min, p.max = min(p.min, g.min), max(p.max, g.max)
	}
	if !c.ended() || len(p.groups) == 0 {
		return broken("its directory")
	}
	return nil
}

// read returns length bytes from an offset. Offsets come from the file, so they are checked against its size
// before memory is allocated.
func (p *pack) read(ctx context.Context, at int64, length int) ([]byte, error) {
	if at < 0 || length < 0 || at+int64(length) > p.size {
		return nil, broken("%d bytes at %d of %d", length, at, p.size)
	}
	b := make([]byte, length)
	_, err := p.volume.readAt(ctx, p.file, b, at)
	if errors.Is(err, io.EOF) {
		return nil, broken("%s ends before its end", p.path)
	}
	if err != nil {
		err = unread(ctx, p.path, err)
		if errors.Is(err, ErrUnread) {
			p.failed.Store(true)
		}
		return nil, err
	}
	return b, nil
}

// part is one series of a pack: its labels, and the offset begin of its first chunk in the file.
type part struct {
	told
	pack  *pack
	begin int64
}

// group reads and decodes the body of a group, and returns its series in their order.
func (p *pack) group(ctx context.Context, g group) ([]part, error) {
	body, err := p.read(ctx, g.at, int(g.length))
	if err != nil {
		return nil, err
	}
	if checksum(body) != g.checksum {
		return nil, broken("what %s tells of a group", p.path)
	}
	return p.parseGroup(g, body)
}

// parseGroup decodes what tell has encoded. The lengths of all chunks must add up to the beginning of the body,
// else the group is broken.
func (p *pack) parseGroup(g group, body []byte) ([]part, error) {
	c := cursor{left: body}
	texts := make([]string, c.count())
	for i := range texts {
		texts[i] = c.text()
	}
	text := func() string {
		i := c.uvarint()
		if i >= uint64(len(texts)) {
			c.fail()
			return ""
		}
		return texts[i]
	}
	builder := labels.NewScratchBuilder(8)
	series := make([]part, c.count())
	begin := g.begin
	for i := range series {
		s := &series[i]
		s.pack, s.begin = p, begin
		builder.Reset()
		for range c.count() {
			builder.Add(text(), text())
		}
		s.labels, s.checksum = builder.Labels(), c.uint32()
		s.chunks = make([]chunk, c.count())
		last := int64(0)
		for k := range s.chunks {
			s.chunks[k].min = last + c.varint()
			s.chunks[k].max = s.chunks[k].min + int64(c.uvarint())
			s.chunks[k].length = int(min(c.uvarint(), math.MaxUint32))
			last = s.chunks[k].max
			// Chunks are written without gaps, so lengths are enough to find them.
			begin += int64(s.chunks[k].length)
		}
	}
	if !c.ended() || begin != g.at {
		return nil, broken("what %s tells of a group", p.path)
	}
	return series, nil
}

// data reads all chunks of the series in one read and checks them.
func (s *part) data(ctx context.Context) ([]byte, error) {
	length := 0
	for _, c := range s.chunks {
		length += c.length
	}
	data, err := s.pack.read(ctx, s.begin, length)
	if err == nil && checksum(data) != s.checksum {
		err = broken("the samples of %s in %s", s.labels, s.pack.path)
	}
	return data, err
}

// iterator returns the samples of the chunks that overlap the time from first to last. It reads the data at once
// and decodes lazily. An error of the read is the error of the iterator.
func (s *part) iterator(ctx context.Context, first, last int64) chunkenc.Iterator {
	data, err := s.data(ctx)
	if err != nil {
		return failed{chunkenc.NewNopIterator(), err}
	}
	var iterators []chunkenc.Iterator
	for _, c := range s.chunks {
		encoded := data[:c.length]
		data = data[c.length:]
		if c.max < first || c.min > last {
			continue
		}
		decoded, err := chunkenc.FromData(chunkenc.EncXOR, encoded)
		if err != nil {
			return failed{chunkenc.NewNopIterator(), broken("%v", err)}
		}
		iterators = append(iterators, decoded.Iterator(nil))
	}
	if len(iterators) == 0 {
		return chunkenc.NewNopIterator()
	}
	return storage.ChainSampleIteratorFromIterators(nil, iterators)
}

// failed is an iterator without samples that reports an error.
type failed struct {
	chunkenc.Iterator
	why error
}

// Err returns why the samples could not be read.
func (f failed) Err() error { return f.why }

// verify reads and checks every group and every series of the file.
func (p *pack) verify() error {
	ctx := context.Background()
	for _, g := range p.groups {
		series, err := p.group(ctx, g)
		if err != nil {
			return err
		}
		for i := range series {
			if _, err := series[i].data(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}
