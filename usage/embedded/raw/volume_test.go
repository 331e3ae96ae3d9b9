package raw

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

// odd is a file with reads of its own.
type odd struct {
	*os.File
	read func(b []byte, at int64) (int, error)
}

func (o odd) ReadAt(b []byte, at int64) (int, error) { return o.read(b, at) }

// oddVolume has every file whose name matches be read in another way.
func oddVolume(of clock.Clock, matches func(path string) bool, read func(file *os.File, b []byte, at int64) (int, error)) *Volume {
	v := NewVolume(of)
	v.Open = func(path string) (File, error) {
		file, err := os.Open(path)
		if err != nil || !matches(path) {
			return file, err
		}
		return odd{file, func(b []byte, at int64) (int, error) { return read(file, b, at) }}, nil
	}
	return v
}

// A read that hangs is left alone, no other is begun until it has returned, and then all is as before.
func TestAReadThatHangs(t *testing.T) {
	dir := t.TempDir()
	l := newLab(t, dir)
	l.live(noon, noon.Add(100*time.Minute), time.Minute)
	require.NoError(t, l.Close())
	fake := clocktesting.NewFakeClock(noon)
	var hanging atomic.Bool
	var begun atomic.Int32
	goesOn, hangs := make(chan struct{}), make(chan struct{}, 1)
	l.volume = oddVolume(fake, func(string) bool { return true }, func(file *os.File, b []byte, at int64) (int, error) {
		if hanging.Load() {
			begun.Add(1)
			hangs <- struct{}{}
			<-goesOn
		}
		return file.ReadAt(b, at)
	})
	l.open()
	hanging.Store(true)
	ask := func(ctx context.Context) error {
		from, err := l.Querier(0, 1<<62)
		require.NoError(t, err)
		set := from.Select(ctx, true, nil, equal("namespace", "shop"))
		for set.Next() {
			it := set.At().Iterator(nil)
			for it.Next() != chunkenc.ValNone { //nolint:revive // its error is what is looked for
			}
			if it.Err() != nil {
				return it.Err()
			}
		}
		return set.Err()
	}
	first := make(chan error, 1)
	go func() { first <- ask(context.Background()) }()
	<-hangs
	require.False(t, l.volume.Hangs(), "it is not late yet")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, ask(ctx), context.Canceled)
	fake.Step(readWithin)
	require.ErrorIs(t, <-first, ErrHangs)
	assert.True(t, l.volume.Hangs())
	require.ErrorIs(t, ask(t.Context()), ErrHangs)
	require.ErrorIs(t, l.DropBroken(), ErrHangs, "nothing is told by that")
	assert.Empty(t, l.left)
	assert.EqualValues(t, 1, begun.Load(), "one read is begun")
	_, err := Open(l.options)
	require.ErrorIs(t, err, ErrHangs, "neither does another store of the volume read")
	hanging.Store(false)
	close(goesOn)
	l.volume.turn <- struct{}{} // the read is back
	<-l.volume.turn
	assert.False(t, l.volume.Hangs())
	require.NoError(t, ask(t.Context()))
	require.NoError(t, l.Close())
}

// Whoever has a deadline is answered while there is time left to do without.
func TestPatience(t *testing.T) {
	assert.Equal(t, readWithin, patienceOf(t.Context()))
	ctx, cancel := context.WithTimeout(t.Context(), readWithin)
	defer cancel()
	assert.LessOrEqual(t, patienceOf(ctx), readWithin/2)
}

// A pack whose samples cannot be read is left out by the query that meets it, not read again until an hour later, and
// goes when it is too old. The others are merged and read.
func TestAPackOfBadSectors(t *testing.T) {
	dir := t.TempDir()
	l := newLab(t, dir)
	l.live(noon, noon.Add(100*time.Minute), time.Minute)
	bad := l.packs[0].path
	require.NoError(t, l.Close())
	var reads int
	var opened atomic.Bool
	l.volume = oddVolume(clock.RealClock{}, func(path string) bool { return path == bad }, func(file *os.File, b []byte, at int64) (int, error) {
		if opened.Load() {
			reads++
			return 0, syscall.EIO
		}
		return file.ReadAt(b, at)
	})
	l.open()
	opened.Store(true)
	from, err := l.Querier(0, 1<<62)
	require.NoError(t, err)
	set := from.Select(t.Context(), true, nil, equal("namespace", "shop"))
	require.False(t, set.Next())
	require.ErrorIs(t, set.Err(), ErrUnread)
	require.ErrorIs(t, set.Err(), syscall.EIO)
	before := reads
	for i := range 60 {
		require.NoError(t, l.Tend(noon.Add(100*time.Minute+time.Duration(i)*time.Minute), plenty))
		require.Len(t, l.read(noon, noon.Add(100*time.Minute)), 1, "without it")
	}
	assert.Equal(t, before, reads)
	assert.Equal(t, 1, strings.Count(l.log.String(), "are left out"), l.log.String())
	require.NoError(t, l.Tend(noon.Add(160*time.Minute), plenty))
	assert.Equal(t, before+1, reads)
	assert.Equal(t, 2, strings.Count(l.log.String(), "are left out"), l.log.String())
	assert.FileExists(t, bad)
	for i := range 10 {
		require.NoError(t, l.Tend(noon.Add(8*24*time.Hour+time.Duration(i)*time.Hour), plenty))
	}
	assert.NoFileExists(t, bad)
	assert.NotContains(t, l.log.String(), "dropped")
}

// While packs are merged, too.
func TestAPackThatCannotBeMerged(t *testing.T) {
	dir := t.TempDir()
	l := newLab(t, dir)
	l.live(noon, noon.Add(100*time.Minute), time.Minute)
	bad, packs := l.packs[1].path, len(l.packs)
	require.NoError(t, l.Close())
	var opened atomic.Bool
	l.volume = oddVolume(clock.RealClock{}, func(path string) bool { return path == bad }, func(file *os.File, b []byte, at int64) (int, error) {
		if opened.Load() {
			return 0, syscall.EIO
		}
		return file.ReadAt(b, at)
	})
	l.open()
	opened.Store(true)
	require.Len(t, l.packs, packs)
	for range 3 {
		require.NoError(t, l.Tend(noon.Add(3*time.Hour), plenty))
	}
	assert.Len(t, l.packs, 1)
	assert.FileExists(t, bad)
	files, err := filepath.Glob(filepath.Join(dir, "*.samples"))
	require.NoError(t, err)
	assert.Len(t, files, 2)
}

// Its bytes count, and it goes as the others do where there are too many.
func TestAnUnreadPackTakesRoom(t *testing.T) {
	dir := t.TempDir()
	l := newLab(t, dir)
	l.live(noon, noon.Add(100*time.Minute), time.Minute)
	bad, size := l.packs[0].path, l.size()
	l.packs[0].failed.Store(true)
	l.leaveOut()
	assert.Equal(t, size, l.size())
	l.options.MaxBytes = (size - 1) * 10 / 9
	l.expire(noon.Add(100 * time.Minute))
	assert.NoFileExists(t, bad)
	assert.Empty(t, l.left)
}

// A journal that cannot be read costs its samples, not the folder; its file is there until it is too old. One that may
// not be read stays where it is.
func TestAJournalThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	l := newLab(t, dir)
	l.live(noon, noon.Add(105*time.Minute), time.Minute)
	require.NoError(t, l.Close())
	path, aside := filepath.Join(dir, journalName), filepath.Join(dir, journalName+asideSuffix)
	why := error(syscall.EACCES)
	l.options.Volume = oddVolume(clock.RealClock{}, func(name string) bool { return name == path }, func(file *os.File, b []byte, at int64) (int, error) {
		if info, err := file.Stat(); err == nil && info.Size() == 0 {
			return file.ReadAt(b, at)
		}
		return 0, why
	})
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NotEmpty(t, before)
	_, err = Open(l.options)
	require.ErrorIs(t, err, os.ErrPermission)
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, before, after)
	why = syscall.EIO
	l.volume = l.options.Volume
	l.open()
	assert.FileExists(t, aside)
	l.live(noon.Add(106*time.Minute), noon.Add(108*time.Minute), time.Minute)
	l.reopen()
	assert.Len(t, l.left, 1, "the last one that could not be read")
	l.live(noon.Add(2*time.Hour), noon.Add(3*time.Hour), time.Minute)
	for _, samples := range l.read(noon.Add(2*time.Hour), noon.Add(3*time.Hour)) {
		assert.Len(t, samples, 60)
	}
	later := time.Now().Add(9 * 24 * time.Hour)
	for range 2 * len(l.packs) {
		require.NoError(t, l.Tend(later, 0))
	}
	assert.NoFileExists(t, aside)
}

// A folder that cannot be listed is left as it is.
func TestAFolderThatCannotBeListed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
	_, err := Open(Options{Dir: path, Retention: time.Hour, MaxBytes: plenty, Log: slog.New(slog.DiscardHandler)})
	require.ErrorIs(t, err, syscall.ENOTDIR)
	_, err = PackFiles(path)
	require.ErrorIs(t, err, syscall.ENOTDIR)
	assert.FileExists(t, path)
}
