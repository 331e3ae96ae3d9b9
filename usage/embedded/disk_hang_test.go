package embedded

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"attune.io/attune/usage"
	"attune.io/attune/usage/embedded/raw"
)

// oddFile has reads of its own.
type oddFile struct {
	raw.File
	read func(file raw.File, b []byte, at int64) (int, error)
}

func (o oddFile) ReadAt(b []byte, at int64) (int, error) { return o.read(o.File, b, at) }

// reopen the disk, whose packs are read in another way from then on.
func (f *fixture) reopen(t *testing.T, read func(file raw.File, b []byte, at int64) (int, error)) {
	t.Helper()
	f.disk.close()
	open := f.disk.volume.Open
	f.disk.volume.Open = func(path string) (raw.File, error) {
		file, err := open(path)
		return oddFile{file, read}, err
	}
	require.NoError(t, f.disk.open())
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, time.Minute, time.Millisecond, what)
}

// TestAReadThatHangs: what memory has is answered, and the rest once the disk answers again.
func TestAReadThatHangs(t *testing.T) {
	dir := t.TempDir()
	hoursOn(t, dir, 8)
	f := newFixture(t, oneContainer, noon, dir)
	var hanging atomic.Bool
	var begun atomic.Int32
	hangs, goesOn := make(chan struct{}, 100), make(chan struct{})
	f.reopen(t, func(file raw.File, b []byte, at int64) (int, error) {
		if hanging.Load() {
			begun.Add(1)
			hangs <- struct{}{}
			<-goesOn
		}
		return file.ReadAt(b, at)
	})
	for i := range 11 {
		require.NoError(t, f.scrapeAt(noon.Add(time.Duration(i)*time.Minute), nil))
	}
	long := noon.Add(-7 * time.Hour)
	hanging.Store(true)
	answered := make(chan usage.Report, 1)
	go func() {
		_, report := points(t, f.Source, long)
		answered <- report
	}()
	<-hangs
	f.clock.Step(10 * time.Second)
	report := <-answered
	assert.True(t, report.Partial)
	require.NotEmpty(t, report.Warnings)
	assert.Contains(t, report.Warnings[0], "the volume does not answer")

	packs := packsIn(dir)
	for range 3 {
		got, report := points(t, f.Source, noon.Add(10*time.Minute))
		assert.True(t, report.Partial)
		assert.NotZero(t, got, "what memory has")
		f.disk.look(f.clock.Now())
	}
	assert.Equal(t, packs, packsIn(dir)[:len(packs)], "nothing is dropped for it")
	value, err := f.Value(t.Context(), `count_over_time(container_memory_working_set_bytes{namespace="shop"}[9m])`, noon.Add(10*time.Minute))
	require.NoError(t, err)
	assert.InDelta(t, 9, value, 0)
	_, err = f.Since(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, 1, begun.Load(), "no read is begun while one hangs")
	assert.Equal(t, 1, f.said("are answered from memory alone"), f.log.String())
	f.clock.Step(time.Hour)
	points(t, f.Source, long)
	assert.Equal(t, 2, f.said("are answered from memory alone"), "an hour later")

	hanging.Store(false)
	close(goesOn)
	eventually(t, "the read is back", func() bool { return !f.disk.volume.Hangs() })
	f.disk.look(f.clock.Now())
	got, report := points(t, f.Source, long)
	assert.False(t, report.Partial, report.Warnings)
	assert.Equal(t, 12, got)
}

// TestAReadOfBadSectors: the query that meets them is partial, and no other is, nor is anything read again for it.
func TestAReadOfBadSectors(t *testing.T) {
	dir := t.TempDir()
	hoursOn(t, dir, 8)
	f := newFixture(t, oneContainer, noon, dir)
	var bad atomic.Bool
	var reads atomic.Int32
	f.reopen(t, func(file raw.File, b []byte, at int64) (int, error) {
		reads.Add(1)
		if bad.Load() {
			return 0, syscall.EIO
		}
		return file.ReadAt(b, at)
	})
	require.NoError(t, f.scrapeAt(noon.Add(time.Minute), nil))
	bad.Store(true)
	oldest := noon.Add(-7 * time.Hour)
	_, report := points(t, f.Source, oldest)
	assert.True(t, report.Partial)
	require.NotEmpty(t, report.Warnings)
	bad.Store(false)
	before := reads.Load()
	for i := range 10 {
		f.disk.look(noon.Add(time.Duration(i) * time.Minute))
	}
	idle, _ := f.disk.state()
	require.NoError(t, idle)
	assert.Equal(t, before, reads.Load(), "the volume is not read again")
	assert.Equal(t, 1, f.said("are left out"))
	got, report := points(t, f.Source, noon)
	assert.NotZero(t, got)
	assert.False(t, report.Partial)
	f.disk.look(noon.Add(2 * time.Hour))
	got, report = points(t, f.Source, oldest)
	assert.Equal(t, 12, got, "it can be read again")
	assert.False(t, report.Partial)
}

// TestADiskThatHangsFromTheBeginning: the kubelets are scraped, questions are answered, and the source ends when it is to.
func TestADiskThatHangsFromTheBeginning(t *testing.T) {
	fake := clocktesting.NewFakeClock(noon)
	kubelet := playKubelet(t, oneContainer, fake.Now)
	source := New(Options{
		Cluster: &cluster{nodes: []Node{nodeAt("node", kubelet)}}, Transport: http.DefaultTransport, Interval: time.Minute, Clock: fake,
		Log: slog.New(slog.DiscardHandler), Metrics: newMetrics(),
		Disk: Disk{Dir: t.TempDir(), Retention: time.Hour, MaxBytes: 1 << 30},
	})
	source.scraper.kubelets.scheme = "http"
	goesOn := make(chan struct{})
	source.disk.room = func(dir string) (room, error) {
		<-goesOn
		return roomOf(dir)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- source.Start(ctx) }()
	eventually(t, "questions are answered", func() bool {
		fake.Step(time.Second)
		select {
		case <-source.started:
			return true
		default:
			return false
		}
	})
	since, err := source.Since(ctx)
	require.NoError(t, err)
	assert.WithinDuration(t, noon, since, time.Minute)
	eventually(t, "kubelets are scraped", func() bool {
		fake.Step(time.Second)
		_, err := source.Value(ctx, memoryMetric, fake.Now())
		return err == nil
	})
	report, err := source.Read(ctx, usage.Query{Namespaces: []string{"shop"}, Start: noon.Add(-time.Hour), End: fake.Now(), Step: 5 * time.Minute, RateWindow: 5 * time.Minute}, func(usage.Series) {})
	require.NoError(t, err)
	assert.True(t, report.Partial, "what is on disk is not known yet")
	stop()
	eventually(t, "it ends", func() bool {
		fake.Step(time.Second)
		select {
		case err := <-done:
			require.NoError(t, err)
			return true
		default:
			return false
		}
	})
	close(goesOn)
	eventually(t, "the disk is let go", func() bool {
		idle, _ := source.disk.state()
		return idle != nil && idle.Error() == "it is closed"
	})
}

// TestAJournalThatMayNotBeRead is no damage: the disk rests, says why, and has everything when it may be read.
func TestAJournalThatMayNotBeRead(t *testing.T) {
	dir := t.TempDir()
	hoursOn(t, dir, 8)
	f := newFixture(t, oneContainer, noon, dir)
	f.disk.close()
	open, before := f.disk.volume.Open, packsIn(dir)
	f.disk.volume.Open = func(path string) (raw.File, error) {
		return nil, &os.PathError{Op: "open", Path: path, Err: syscall.EACCES}
	}
	require.ErrorIs(t, f.disk.open(), os.ErrPermission)
	f.disk.look(noon.Add(time.Minute))
	idle, _ := f.disk.state()
	require.ErrorContains(t, idle, "journal")
	assert.Equal(t, before, packsIn(dir))
	assert.Equal(t, 1, f.said("recommendations go on from memory"), f.log.String())
	f.disk.volume.Open = open
	f.disk.look(noon.Add(2 * time.Minute))
	got, report := points(t, f.Source, noon.Add(-7*time.Hour))
	assert.Equal(t, 12, got)
	assert.False(t, report.Partial)
}
