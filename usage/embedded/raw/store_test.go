package raw

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var noon = time.Date(2025, 6, 2, 12, 0, 0, 0, time.UTC)

const plenty = 1 << 40

func of(metric, namespace, pod string) labels.Labels {
	return labels.FromStrings(labels.MetricName, metric, "container", "app", "namespace", namespace, "pod", pod)
}

// lab is a store with its log.
type lab struct {
	*Store
	t   *testing.T
	dir string
	log bytes.Buffer
	// volume is one of the store's own, unless a test has another.
	volume *Volume
}

func newLab(t *testing.T, dir string) *lab {
	t.Helper()
	l := &lab{t: t, dir: dir}
	l.open()
	return l
}

func (l *lab) open() {
	l.t.Helper()
	var err error
	l.Store, err = Open(Options{Dir: l.dir, Retention: 8 * 24 * time.Hour, MaxBytes: plenty, Log: slog.New(slog.NewTextHandler(&l.log, nil)), Volume: l.volume})
	require.NoError(l.t, err)
}

func (l *lab) reopen() {
	l.t.Helper()
	require.NoError(l.t, l.Close())
	l.open()
}

// read answers with the samples of every series that matches, in the order of the labels.
func (l *lab) read(first, last time.Time, matchers ...*labels.Matcher) map[string]Samples {
	l.t.Helper()
	from, err := l.Querier(first.UnixMilli(), last.UnixMilli())
	require.NoError(l.t, err)
	defer func() { require.NoError(l.t, from.Close()) }()
	return samplesOf(l.t, from.Select(context.Background(), true, nil, matchers...), first.UnixMilli(), last.UnixMilli())
}

func samplesOf(t *testing.T, set storage.SeriesSet, first, last int64) map[string]Samples {
	t.Helper()
	found, before := map[string]Samples{}, labels.EmptyLabels()
	for set.Next() {
		series := set.At()
		require.Negative(t, labels.Compare(before, series.Labels()), "in the order of the labels, each once")
		before = series.Labels()
		var samples Samples
		it := series.Iterator(nil)
		for it.Next() != chunkenc.ValNone {
			if at, value := it.At(); at >= first && at <= last { // a chunk may have more
				samples = append(samples, Sample{At: at, Value: value})
			}
		}
		require.NoError(t, it.Err())
		if len(samples) > 0 {
			found[before.String()] = samples
		}
	}
	require.NoError(t, set.Err())
	return found
}

func equal(name, value string) *labels.Matcher {
	return labels.MustNewMatcher(labels.MatchEqual, name, value)
}

// What is read is what was appended, whatever became of it: in the journal, in packs, merged, after crashes, late, twice,
// and from clocks that jumped.
func TestWhatIsReadIsWhatWasAppended(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			l := newLab(t, t.TempDir())
			model := map[string]map[int64]float64{}
			var series []labels.Labels
			for i := range 700 {
				series = append(series, of([]string{"cpu", "memory"}[i%2], fmt.Sprintf("ns-%d", i%11), fmt.Sprintf("pod-%03d", i)))
			}
			now := noon
			for range 200 {
				now = now.Add(time.Duration(random.IntN(15)) * time.Minute)
				if random.IntN(40) == 0 {
					now = now.Add(-5 * time.Hour)
				}
				var batch []Entry
				for range random.IntN(300) {
					which := series[random.IntN(len(series))]
					at := now.Add(-time.Duration(random.IntN(90)) * time.Second).UnixMilli()
					if model[which.String()] == nil {
						model[which.String()] = map[int64]float64{}
					}
					value, known := model[which.String()][at]
					if !known {
						value = float64(random.IntN(1000)) / 8
						model[which.String()][at] = value
					}
					batch = append(batch, Entry{which, Sample{at, value}})
				}
				require.NoError(t, l.Append(batch))
				switch random.IntN(12) {
				case 0:
					l.reopen()
				case 1:
					l.crash()
				case 2, 3, 4:
					require.NoError(t, l.Tend(now, plenty))
				}
			}
			for range 30 {
				require.NoError(t, l.Tend(now.Add(48*time.Hour), plenty))
			}
			l.same(model, noon.Add(-100*time.Hour), now)
			l.same(model, noon.Add(2*time.Hour), noon.Add(5*time.Hour))
			assert.Empty(t, l.log.String(), "nothing was dropped")
			for _, span := range spans {
				seen := map[int64]bool{}
				for _, p := range l.packs {
					begin := floor(p.min, span.Milliseconds())
					assert.False(t, seen[begin], "two packs of %s", span)
					seen[begin] = true
				}
			}
		})
	}
}

// crash: the folder is as it was, and whatever was being written is torn.
func (l *lab) crash() {
	l.t.Helper()
	require.NoError(l.t, os.WriteFile(filepath.Join(l.dir, "123"+tempSuffix), []byte(magic), 0o600))
	l.open() // the old one's files stay open until they are collected, as with a process that was killed
	assert.Contains(l.t, l.log.String(), "that were being packed")
	l.log.Reset()
}

func (l *lab) same(model map[string]map[int64]float64, first, last time.Time) {
	l.t.Helper()
	wanted := map[string]Samples{}
	for of, samples := range model {
		for at, value := range samples {
			if at >= first.UnixMilli() && at <= last.UnixMilli() {
				wanted[of] = append(wanted[of], Sample{at, value})
			}
		}
		slices.SortFunc(wanted[of], func(a, b Sample) int { return int(a.At - b.At) })
		if wanted[of] == nil {
			delete(wanted, of)
		}
	}
	require.Equal(l.t, wanted, l.read(first, last))
	for _, namespace := range []string{"ns-3", "ns-10", "none"} {
		some := map[string]Samples{}
		for of, samples := range wanted {
			if bytes.Contains([]byte(of), []byte(`namespace="`+namespace+`"`)) && bytes.Contains([]byte(of), []byte(`"memory"`)) {
				some[of] = samples
			}
		}
		matchers := []*labels.Matcher{equal("namespace", namespace), labels.MustNewMatcher(labels.MatchRegexp, labels.MetricName, "memory|other")}
		require.Equal(l.t, some, l.read(first, last, matchers...))
	}
}

// days of one series, a sample a minute, tended as time goes by.
func (l *lab) live(from, to time.Time, every time.Duration) {
	l.t.Helper()
	for at := from; at.Before(to); at = at.Add(every) {
		require.NoError(l.t, l.Append([]Entry{{of("cpu", "shop", "web"), Sample{at.UnixMilli(), 1}}}))
		require.NoError(l.t, l.Tend(at, plenty))
	}
}

// A pack is of ten minutes, then of two hours, then of a day; what is older than the retention goes, and what is more
// than the folder may have.
func TestPacksAreMergedAndGo(t *testing.T) {
	l := newLab(t, t.TempDir())
	end := noon.Add(10 * 24 * time.Hour)
	l.live(noon, end, 5*time.Minute)
	assert.LessOrEqual(t, len(l.packs), 8+1+12+1+12)
	assert.WithinDuration(t, end.Add(-8*24*time.Hour), l.Oldest(), 25*time.Hour)
	found := l.read(noon, end)
	require.Len(t, found, 1)
	for _, samples := range found {
		assert.GreaterOrEqual(t, len(samples), 8*24*12)
	}
	before, newest := l.Oldest(), l.packs[len(l.packs)-1]
	l.options.MaxBytes = l.size() / 2
	require.NoError(t, l.Tend(end, plenty))
	assert.LessOrEqual(t, l.size(), l.options.MaxBytes)
	assert.True(t, l.Oldest().After(before), "the oldest go first")
	assert.Same(t, newest, l.packs[len(l.packs)-1])
}

// A clock that is a year ahead for a moment costs one pack, not all of them.
func TestAClockThatIsAheadForAMoment(t *testing.T) {
	l := newLab(t, t.TempDir())
	end := noon.Add(3 * 24 * time.Hour)
	l.live(noon, end, 5*time.Minute)
	before := len(l.packs)
	require.NoError(t, l.Tend(end.Add(365*24*time.Hour), plenty))
	assert.GreaterOrEqual(t, len(l.packs), before-12, "what was open is merged, and one went")
	assert.WithinDuration(t, noon, l.Oldest(), 25*time.Hour)
}

// Where there is no room for a longer pack, the short ones stay.
func TestNoRoomToMerge(t *testing.T) {
	l := newLab(t, t.TempDir())
	for at := noon; at.Before(noon.Add(6 * time.Hour)); at = at.Add(time.Minute) {
		require.NoError(t, l.Append([]Entry{{of("cpu", "shop", "web"), Sample{at.UnixMilli(), 1}}}))
		require.NoError(t, l.Tend(at, 0))
	}
	assert.Greater(t, len(l.packs), 20)
	require.NoError(t, l.Tend(noon.Add(6*time.Hour), plenty))
	assert.Less(t, len(l.packs), 25)
}

// What is broken is dropped, and the rest is read.
func TestWhatIsBrokenIsDropped(t *testing.T) {
	prepared := func(t *testing.T) *lab {
		l := newLab(t, t.TempDir())
		l.live(noon, noon.Add(5*time.Hour), time.Minute)
		require.Greater(t, len(l.packs), 2)
		return l
	}
	whole := 0
	for _, samples := range prepared(t).read(noon, noon.Add(5*time.Hour)) {
		whole = len(samples)
	}
	for name, hurt := range map[string]func(t *testing.T, pack, journal string){
		"a pack with half its bytes":   func(t *testing.T, pack, _ string) { halve(t, pack) },
		"an empty pack":                func(t *testing.T, pack, _ string) { require.NoError(t, os.Truncate(pack, 0)) },
		"a pack of noise":              func(t *testing.T, pack, _ string) { noise(t, pack, 7) },
		"a pack with one other sample": func(t *testing.T, pack, _ string) { noise(t, pack, len(magic)+3) },
		"a torn journal":               func(t *testing.T, _, journal string) { halve(t, journal) },
		"a journal of noise":           func(t *testing.T, _, journal string) { noise(t, journal, 40) },
		"a folder where the journal belongs": func(t *testing.T, _, journal string) {
			require.NoError(t, os.Remove(journal))
			require.NoError(t, os.MkdirAll(filepath.Join(journal, "x"), 0o750))
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := prepared(t)
			require.NoError(t, l.Close())
			hurt(t, l.packs[0].path, filepath.Join(l.dir, journalName))
			l.open()
			require.NoError(t, l.DropBroken())
			assert.Contains(t, l.log.String(), "dropped")
			for _, samples := range l.read(noon, noon.Add(5*time.Hour)) {
				assert.Less(t, len(samples), whole)
				assert.Greater(t, len(samples), whole/3)
			}
			l.live(noon.Add(5*time.Hour), noon.Add(6*time.Hour), time.Minute)
			assert.Len(t, slices.Collect(samplesIn(l.read(noon.Add(5*time.Hour), noon.Add(6*time.Hour)))), 60, "and it goes on")
		})
	}
}

func samplesIn(found map[string]Samples) func(yield func(Sample) bool) {
	return func(yield func(Sample) bool) {
		for _, samples := range found {
			for _, s := range samples {
				if !yield(s) {
					return
				}
			}
		}
	}
}

func halve(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(path, info.Size()/2))
}

func noise(t *testing.T, path string, from int) {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	for i := from; i < len(content); i += 97 {
		content[i] ^= 0x5a
	}
	require.NoError(t, os.WriteFile(path, content, 0o600))
}

// A pack that breaks while it is in use fails the query that reads it, and is dropped when packs are merged.
func TestAPackThatBreaksInUse(t *testing.T) {
	l := newLab(t, t.TempDir())
	l.live(noon, noon.Add(100*time.Minute), time.Minute)
	packs := len(l.packs)
	noise(t, l.packs[0].path, len(magic)+3)
	from, err := l.Querier(0, 1<<62)
	require.NoError(t, err)
	set := from.Select(t.Context(), true, nil, equal("namespace", "shop"))
	for set.Next() {
		it := set.At().Iterator(nil)
		for it.Next() != chunkenc.ValNone { //nolint:revive // its error is what is looked for
		}
		err = it.Err()
	}
	require.ErrorIs(t, err, ErrBroken)
	require.NoError(t, l.Tend(noon.Add(3*time.Hour), plenty))
	assert.Len(t, l.packs, packs-1)
	require.NoError(t, l.Tend(noon.Add(3*time.Hour), plenty))
	assert.Len(t, l.packs, 1)
	assert.Len(t, l.read(noon, noon.Add(100*time.Minute)), 1)
}

// What Prometheus's database left in the folder goes; nothing else does.
func TestAnEarlierVersionsFolder(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{
		"01JWXZ7Q0R5S8T9V0W1X2Y3Z4A/chunks", "01JWXZ7Q0R5S8T9V0W1X2Y3Z4B.tmp-for-deletion/chunks", "wal/checkpoint.00000003", "chunks_head", "wbl",
		"01JWXZ7Q0R5S8T9V0W1X2Y3Z4C/photos", "lost+found/inside",
	} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, name), 0o750))
	}
	for _, name := range []string{"wal/00000004", "chunks_head/000001", "01JWXZ7Q0R5S8T9V0W1X2Y3Z4A/meta.json"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "lock"), nil, 0o600))
	l := newLab(t, dir)
	assert.Equal(t, 1, strings.Count(l.log.String(), "\n"), l.log.String())
	var left []string
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		left = append(left, e.Name())
	}
	assert.Equal(t, []string{"01JWXZ7Q0R5S8T9V0W1X2Y3Z4C", "journal", "lock", "lost+found"}, left)
}

// A pack that cannot be opened is no broken pack: it is left out, and stays.
func TestAPackThatMayNotBeRead(t *testing.T) {
	dir := t.TempDir()
	l := newLab(t, dir)
	l.live(noon, noon.Add(time.Hour), time.Minute)
	path := l.packs[0].path
	require.NoError(t, l.Close())
	require.NoError(t, os.Rename(path, path+"x"))
	require.NoError(t, os.Symlink(path, path)) // a loop: opening it fails, whoever asks
	l.open()
	assert.NotEmpty(t, l.packs)
	_, err := os.Lstat(path)
	assert.NoError(t, err, "it is still there")
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Rename(path+"x", path))
	packs := len(l.packs)
	require.NoError(t, l.Tend(noon.Add(time.Hour), plenty))
	require.NoError(t, l.Tend(noon.Add(2*time.Hour), 0))
	assert.Len(t, l.packs, packs+1, "it is read again")
	assert.Contains(t, l.log.String(), "can be read again")
}

// BenchmarkStore appends a minute of 10,000 series, and reads one namespace's day of 50 series among them.
func BenchmarkStore(b *testing.B) {
	const series = 10_000
	batch := make([]Entry, series)
	for i := range batch {
		batch[i].Labels = of("cpu", fmt.Sprintf("ns-%03d", i%200), fmt.Sprintf("pod-%05d", i))
	}
	s, err := Open(Options{Dir: b.TempDir(), Retention: 24 * time.Hour * 8, MaxBytes: plenty, Log: slog.New(slog.DiscardHandler)})
	require.NoError(b, err)
	at, random := noon, rand.New(rand.NewPCG(1, 1))
	minute := func() {
		at = at.Add(time.Minute)
		for i := range batch {
			batch[i].At = at.UnixMilli() + int64(random.IntN(500))
			batch[i].Value += float64(random.IntN(60_000)) / 1000
		}
		require.NoError(b, s.Append(batch))
		require.NoError(b, s.Tend(at, plenty))
	}
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			minute()
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/series, "ns/sample")
	})
	for range 60 * 26 {
		minute()
	}
	b.ReportMetric(float64(s.size())/(at.Sub(noon).Minutes()*series), "B/sample")
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			from, _ := s.Querier(at.Add(-24*time.Hour).UnixMilli(), at.UnixMilli())
			set, n := from.Select(b.Context(), true, nil, equal("namespace", "ns-077"), equal(labels.MetricName, "cpu")), 0
			for set.Next() {
				for it := set.At().Iterator(nil); it.Next() != chunkenc.ValNone; n++ {
				}
			}
			require.Greater(b, n, 50*24*59)
		}
	})
}
