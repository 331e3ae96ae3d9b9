package embedded

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"

	"attune.io/attune/usage"
	"attune.io/attune/usage/prometheus"
	"attune.io/attune/usage/sourcetest"
)

var noon = time.Date(2025, 6, 2, 12, 0, 0, 0, time.UTC)

// oneContainer uses 0.2 cores and 1 MiB.
func oneContainer(at time.Time) []sourcetest.Measured {
	return []sourcetest.Measured{{Namespace: "shop", Pod: "web-7d4f8c9b6-aaaaa", Container: "app", CPUSeconds: 0.2 * float64(at.Unix()-1.7e9), MemoryBytes: 1 << 20}}
}

// hoursOn writes the past hours of one container, and tends them.
func hoursOn(t *testing.T, dir string, n int) {
	t.Helper()
	from := noon.Add(-time.Duration(n) * time.Hour)
	f := newFixture(t, oneContainer, from, dir)
	for at := from; at.Before(noon); at = at.Add(time.Hour) {
		measure(t, f, sourcetest.Past{From: at, To: at.Add(59 * time.Minute), Every: time.Minute, World: oneContainer})
		f.disk.look(f.clock.Now())
	}
	measure(t, f, sourcetest.Past{From: noon, To: noon, Every: time.Minute, World: oneContainer})
	require.NotEmpty(t, packsIn(dir))
	f.disk.close()
}

// packsIn a folder, the oldest first.
func packsIn(dir string) []string {
	found, err := filepath.Glob(filepath.Join(dir, "*.samples"))
	if err != nil {
		panic(err)
	}
	slices.Sort(found)
	return found
}

// points are how many values a source has of an hour.
func points(t *testing.T, s *Source, end time.Time) (int, usage.Report) {
	t.Helper()
	n := 0
	report, err := s.Read(t.Context(), usage.Query{Namespaces: []string{"shop"}, Start: end.Add(-55 * time.Minute), End: end, Step: 5 * time.Minute, RateWindow: 5 * time.Minute},
		func(s usage.Series) { n += len(s.Memory) })
	require.NoError(t, err)
	return n, report
}

func TestBrokenPiecesAreDropped(t *testing.T) {
	const all = 12
	oldest := noon.Add(-7 * time.Hour)
	for _, c := range []struct {
		name string
		hurt func(t *testing.T, dir string)
		// then is how many values of the oldest and the newest hour are left.
		oldest, newest int
		says           string
	}{
		{"nothing", func(*testing.T, string) {}, all, all, ""},
		{"a pack with half its bytes", func(t *testing.T, dir string) { halve(t, packsIn(dir)[0]) }, 0, all, "raw samples on disk are dropped"},
		{"a torn journal", func(t *testing.T, dir string) { halve(t, filepath.Join(dir, "journal")) }, all, 0, "the end of the journal of raw samples is dropped"},
		{"a journal of noise", func(t *testing.T, dir string) { noise(t, filepath.Join(dir, "journal")) }, all, 0, "the end of the journal of raw samples is dropped"},
		{"a folder where the journal belongs", func(t *testing.T, dir string) {
			require.NoError(t, os.Remove(filepath.Join(dir, "journal")))
			require.NoError(t, os.Mkdir(filepath.Join(dir, "journal"), 0o750))
		}, all, 0, "raw samples on disk are dropped"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			hoursOn(t, dir, 8)
			c.hurt(t, dir)
			f := newFixture(t, oneContainer, noon, dir)
			got, _ := points(t, f.Source, oldest)
			assert.Equal(t, c.oldest, got, "the oldest hour")
			got, _ = points(t, f.Source, noon)
			assert.GreaterOrEqual(t, got, c.newest, "the newest hour")
			assert.Contains(t, f.log.String(), c.says)
			require.NoError(t, f.scrapeAt(noon.Add(time.Minute), nil), "and it goes on")
		})
	}
}

func halve(t *testing.T, path string) {
	t.Helper()
	require.NoError(t, os.Truncate(path, sizeOf(t, path)/2))
}

func noise(t *testing.T, path string) {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	for i := 100; i < len(content); i += 7 {
		content[i] ^= 0x5a
	}
	require.NoError(t, os.WriteFile(path, content, 0o600))
}

func sizeOf(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.Size()
}

// TestAPackThatBreaksInUse: the answer comes from memory and says so; then the pack is dropped.
func TestAPackThatBreaksInUse(t *testing.T) {
	dir := t.TempDir()
	hoursOn(t, dir, 8)
	f := newFixture(t, oneContainer, noon, dir)
	packs := len(packsIn(dir))
	noise(t, packsIn(dir)[0])
	require.NoError(t, f.scrapeAt(noon.Add(time.Minute), nil))
	_, report := points(t, f.Source, noon.Add(-7*time.Hour))
	require.True(t, report.Partial, f.log.String())
	require.NotEmpty(t, report.Warnings)
	assert.Contains(t, report.Warnings[0], "the samples on disk cannot be read")
	f.disk.look(f.clock.Now())
	assert.Len(t, packsIn(dir), packs-1)
	assert.Contains(t, f.log.String(), "raw samples on disk are dropped")
	_, report = points(t, f.Source, noon)
	assert.False(t, report.Partial)
	assert.Empty(t, report.Warnings)
}

// TestAFullDisk: what is decided goes on from memory; when there is room again, so does the disk.
func TestAFullDisk(t *testing.T) {
	f := newFixture(t, oneContainer, noon, t.TempDir())
	minutes := func(from, to int) {
		for i := from; i <= to; i++ {
			require.NoError(t, f.scrapeAt(noon.Add(time.Duration(i)*time.Minute), nil))
		}
	}
	minutes(0, 10)
	f.disk.room = func(string) (room, error) { return room{free: reserve - 1}, nil }
	minutes(11, 20)
	idle, _ := f.disk.state()
	require.ErrorContains(t, idle, "the disk is full")
	assert.Contains(t, f.log.String(), "recommendations go on from memory")
	f.disk.look(f.clock.Now())
	idle, _ = f.disk.state()
	require.Error(t, idle, "it is still full")
	value, err := f.Value(t.Context(), `count_over_time(container_memory_working_set_bytes{namespace="shop"}[11m])`, noon.Add(20*time.Minute))
	require.NoError(t, err)
	assert.InDelta(t, 11, value, 0, "memory has all of it")
	f.disk.room = roomOf
	f.disk.look(f.clock.Now())
	minutes(21, 25)
	idle, oldest := f.disk.state()
	require.NoError(t, idle)
	assert.Equal(t, noon, oldest, "what was there is there again")
	f.disk.close()
	after := newFixture(t, oneContainer, noon.Add(26*time.Minute), f.disk.config.Dir)
	value, err = after.Value(t.Context(), `count_over_time(container_memory_working_set_bytes{namespace="shop"}[30m])`, noon.Add(26*time.Minute))
	require.NoError(t, err)
	assert.InDelta(t, 16, value, 1, "all but the ten minutes without a disk")
}

// TestADiskThatIsNone: a folder that cannot be made, and one that another process uses.
func TestADiskThatIsNone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	assert.Error(t, newDisk(Disk{Dir: filepath.Join(file, "dir"), Retention: time.Hour}, clock.RealClock{}, slog.New(slog.DiscardHandler)).open())

	dir := t.TempDir()
	first := newFixture(t, oneContainer, noon, dir)
	require.NoError(t, first.scrapeAt(noon, nil))
	second := newDisk(first.disk.config, first.clock, slog.New(slog.DiscardHandler))
	require.ErrorIs(t, second.open(), errLocked)
	first.disk.close()
	require.NoError(t, second.open(), "when it is free")
	second.close()
}

// TestAFolderThatIsTooSmall gives up everything rather than taking more than it may.
func TestAFolderThatIsTooSmall(t *testing.T) {
	f := newFixture(t, oneContainer, noon, t.TempDir())
	for i := range 30 {
		require.NoError(t, f.scrapeAt(noon.Add(time.Duration(i)*time.Minute), nil))
	}
	f.disk.config.MaxBytes = 100
	f.disk.look(f.clock.Now())
	idle, _ := f.disk.state()
	require.ErrorContains(t, idle, "usage.embedded.size")
	f.disk.config.MaxBytes = 1 << 30
	f.disk.look(f.clock.Now())
	idle, _ = f.disk.state()
	require.NoError(t, idle)
	f.disk.config.MaxBytes = 100
	f.disk.look(f.clock.Now())
	f.disk.look(f.clock.Now())
	assert.Contains(t, f.log.String(), "the oldest raw samples on disk are removed")
	assert.Empty(t, packsIn(f.disk.config.Dir))
	for i := range 3 {
		require.NoError(t, f.scrapeAt(noon.Add(time.Duration(30+i)*time.Minute), nil), "into the journal")
	}
	f.disk.look(f.clock.Now())
	f.disk.look(f.clock.Now())
	assert.Contains(t, f.log.String(), "all raw samples on disk are dropped")
	value, err := f.Value(t.Context(), `count_over_time(container_memory_working_set_bytes{namespace="shop"}[10m])`, noon.Add(29*time.Minute))
	require.NoError(t, err)
	assert.InDelta(t, 10, value, 0)
}

// TestSizeIsBounded: the oldest packs go when the folder is full.
func TestSizeIsBounded(t *testing.T) {
	dir := t.TempDir()
	hoursOn(t, dir, 30)
	before, size := packsIn(dir), int64(0)
	for _, pack := range before {
		size += sizeOf(t, pack)
	}
	d := newDisk(Disk{Dir: dir, Retention: 8 * 24 * time.Hour, MaxBytes: size / 2}, clock.RealClock{}, slog.New(slog.DiscardHandler))
	require.NoError(t, d.open())
	defer d.close()
	d.look(noon)
	d.look(noon)
	assert.Less(t, len(packsIn(dir)), len(before))
	assert.NotContains(t, packsIn(dir), before[0])
	idle, oldest := d.state()
	require.NoError(t, idle)
	assert.True(t, oldest.After(noon.Add(-30*time.Hour)))
}

func TestErrorsOfQueries(t *testing.T) {
	f := newFixture(t, oneContainer, noon, t.TempDir())
	require.NoError(t, f.scrapeAt(noon, nil))
	_, err := f.Value(t.Context(), `container_memory_working_set_bytes * on() group_left() {__name__=~"container_.+"}`, noon)
	require.Error(t, err)
	assert.NotErrorIs(t, err, prometheus.ErrNoValue)
	f.disk.look(f.clock.Now())
	idle, _ := f.disk.state()
	assert.NoError(t, idle, "the query is to blame, not the disk")
	query := usage.Query{Namespaces: []string{"shop"}, Start: noon.Add(-10000 * time.Hour), End: noon, Step: time.Second, RateWindow: time.Minute}
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	_, err = f.Read(ctx, query, func(usage.Series) {})
	assert.True(t, errors.Is(err, context.DeadlineExceeded), "%v", err)
}
