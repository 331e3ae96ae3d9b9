package embedded

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"
)

// sizeIn a folder, of all packs.
func sizeIn(t *testing.T, dir string) (bytes int64) {
	t.Helper()
	for _, path := range packsIn(dir) {
		bytes += sizeOf(t, path)
	}
	return bytes
}

// said is how often the log has a text.
func (f *fixture) said(text string) int { return strings.Count(f.log.String(), text) }

// crowded is a source on a volume that its own packs of 30 hours fill, but for a byte less than the reserve.
func crowded(t *testing.T, total uint64) (*fixture, string) {
	t.Helper()
	dir := t.TempDir()
	hoursOn(t, dir, 30)
	f := newFixture(t, oneContainer, noon, dir)
	volume := uint64(sizeIn(t, dir)) + reserve - 1
	f.disk.room = func(string) (room, error) {
		return room{free: volume - uint64(sizeIn(t, dir)), total: total}, nil
	}
	return f, dir
}

// TestADiskThatIsFullOfItsOwn becomes free again by what is older than it may be, the oldest first, and of no more of it
// than is needed.
func TestADiskThatIsFullOfItsOwn(t *testing.T) {
	f, dir := crowded(t, 0)
	before := packsIn(dir)
	require.NoError(t, f.scrapeAt(noon.Add(time.Minute), nil))
	idle, _ := f.disk.state()
	require.ErrorContains(t, idle, "the disk is full")
	f.disk.look(noon.Add(2 * time.Minute))
	idle, _ = f.disk.state()
	require.Error(t, idle)
	assert.Equal(t, before, packsIn(dir), "nothing is too old")
	f.disk.config.Retention = 2 * time.Hour
	f.disk.look(noon.Add(3 * time.Minute))
	idle, _ = f.disk.state()
	require.NoError(t, idle)
	assert.Equal(t, before[1:], packsIn(dir))
}

// TestAVolumeThatIsSmallerThanItsSize keeps what there is room for, whatever it may keep.
func TestAVolumeThatIsSmallerThanItsSize(t *testing.T) {
	f, dir := crowded(t, 1000)
	before := packsIn(dir)
	f.disk.look(noon.Add(time.Minute))
	idle, _ := f.disk.state()
	require.Error(t, idle)
	f.disk.look(noon.Add(2 * time.Minute))
	idle, _ = f.disk.state()
	require.NoError(t, idle)
	left := packsIn(dir)
	assert.Less(t, len(left), len(before))
	assert.NotEmpty(t, left)
	assert.Equal(t, before[len(before)-len(left):], left, "the oldest went")
}

// TestADiskThatOthersFill is said when it begins and then hourly, and costs no samples that may be kept.
func TestADiskThatOthersFill(t *testing.T) {
	dir := t.TempDir()
	hoursOn(t, dir, 30)
	f := newFixture(t, oneContainer, noon, dir)
	before := packsIn(dir)
	f.disk.room = func(string) (room, error) { return room{free: reserve - 1, total: 1 << 40}, nil }
	for i := range 121 {
		f.disk.look(noon.Add(time.Duration(i) * time.Minute))
	}
	assert.Equal(t, before, packsIn(dir))
	assert.Equal(t, 3, f.said("the disk is full"), f.log.String())
}

// TestRoomThatIsNotKnown is no fullness.
func TestRoomThatIsNotKnown(t *testing.T) {
	dir := t.TempDir()
	hoursOn(t, dir, 30)
	f := newFixture(t, oneContainer, noon, dir)
	before := packsIn(dir)
	f.disk.config.Retention = time.Hour
	f.disk.room = func(string) (room, error) { return room{}, os.ErrPermission }
	f.disk.look(noon.Add(time.Minute))
	f.disk.look(noon.Add(2 * time.Minute))
	idle, _ := f.disk.state()
	require.ErrorIs(t, idle, os.ErrPermission)
	assert.Equal(t, before, packsIn(dir))
}

// TestAFullDiskOfAnotherProcess is not its to make room on.
func TestAFullDiskOfAnotherProcess(t *testing.T) {
	f, dir := crowded(t, 1000)
	before := packsIn(dir)
	other := newDisk(Disk{Dir: dir, Retention: time.Hour, MaxBytes: 1}, f.clock, f.options.Log)
	other.room = f.disk.room
	require.ErrorIs(t, other.open(), errLocked)
	other.look(noon)
	assert.Equal(t, before, packsIn(dir))
}

// TestAPackThatCannotBeRead is left out and goes when it is too old; the rest goes on.
func TestAPackThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	hoursOn(t, dir, 30)
	path := packsIn(dir)[0]
	require.NoError(t, os.Rename(path, filepath.Join(t.TempDir(), "x")))
	require.NoError(t, os.Mkdir(path, 0o750))
	f := newFixture(t, oneContainer, noon, dir)
	idle, _ := f.disk.state()
	require.NoError(t, idle)
	for i := range 121 {
		f.disk.look(noon.Add(time.Duration(i) * time.Minute))
	}
	assert.DirExists(t, path)
	assert.Equal(t, 3, f.said("are left out"), f.log.String())
	got, report := points(t, f.Source, noon)
	assert.NotZero(t, got)
	assert.False(t, report.Partial)
	for at := noon.Add(2 * time.Hour); at.Before(noon.Add(9 * 24 * time.Hour)); at = at.Add(time.Hour) {
		f.disk.look(at)
	}
	assert.NoDirExists(t, path)
}

// TestADiskThatIsFullOfAnEarlierVersions becomes free when it is opened.
func TestADiskThatIsFullOfAnEarlierVersions(t *testing.T) {
	dir := t.TempDir()
	block := filepath.Join(dir, "01JWXZ7Q0R5S8T9V0W1X2Y3Z4A")
	require.NoError(t, os.MkdirAll(filepath.Join(block, "chunks"), 0o750))
	d := newDisk(Disk{Dir: dir, Retention: time.Hour, MaxBytes: 1 << 30}, clock.RealClock{}, slog.New(slog.DiscardHandler))
	d.room = func(string) (room, error) {
		if _, err := os.Stat(block); err == nil {
			return room{free: reserve - 1}, nil
		}
		return room{free: reserve}, nil
	}
	require.NoError(t, d.open())
	d.close()
	assert.NoDirExists(t, block)
}

// TestAFolderThatMayNotBeLocked is said to be that, not another process's.
func TestAFolderThatMayNotBeLocked(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "lock"), 0o750))
	d := newDisk(Disk{Dir: dir, Retention: time.Hour, MaxBytes: 1 << 30}, clock.RealClock{}, slog.New(slog.DiscardHandler))
	err := d.open()
	require.ErrorContains(t, err, "locking the folder")
	assert.NotErrorIs(t, err, errLocked)
}
