package embedded

import (
	"bufio"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"

	"attune.io/attune/usage"
	"attune.io/attune/usage/embedded/raw"
	"attune.io/attune/usage/sourcetest"
)

// childDir is set in the process that a test kills.
const childDir = "ATTUNE_TEST_KILLED_DIR"

// childFrom is the time of its first scrape.
const childFrom = "ATTUNE_TEST_KILLED_FROM"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		scrapeForever(dir)
	}
	os.Exit(m.Run())
}

const killedContainers = 10

func manyContainers(at time.Time) []sourcetest.Measured {
	var all []sourcetest.Measured
	for i := range killedContainers {
		all = append(all, sourcetest.Measured{
			Namespace: "shop", Pod: fmt.Sprintf("web-7d4f8c9b6-%05d", i), Container: "app",
			CPUSeconds: 0.2 * float64(at.Unix()-1.7e9), MemoryBytes: float64(i+1) * (1 << 20),
		})
	}
	return all
}

// scrapeForever writes a scrape for each minute from where it left off, and says which it has written. So
// many minutes go by in a second that it packs and merges all the time.
func scrapeForever(dir string) {
	d := newDisk(Disk{Dir: dir, Retention: 8 * 24 * time.Hour, MaxBytes: 1 << 30}, clock.RealClock{}, slog.New(slog.DiscardHandler))
	if err := d.open(); err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
	at, err := time.Parse(time.RFC3339, os.Getenv(childFrom))
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
	memory := newRecent(minWindow, at)
	fmt.Println("opened", at.Unix())
	for ; ; at = at.Add(time.Minute) {
		var batch []scraped
		for _, m := range manyContainers(at) {
			batch = append(batch, scraped{memory.intern(labelsOf("container_memory_working_set_bytes", m)), raw.Sample{At: at.UnixMilli(), Value: m.MemoryBytes}})
		}
		d.append(memory.append(batch, at))
		d.look(at)
		if d.idle != nil {
			fmt.Println("failed:", d.idle)
			os.Exit(1)
		}
		fmt.Println("wrote", at.Unix(), len(packsIn(dir)))
	}
}

// TestKilled kills a process with -9 again and again while it writes, packs and merges. Each time, all that it
// said to have written is there.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(1, 2))
	packs, last := 0, noon.Add(-time.Minute)
	for round := range 6 {
		n := 0
		last, n = writeAndDie(t, dir, last.Add(time.Minute), 1000+rng.IntN(1500))
		packs = max(packs, n)
		f := newFixture(t, manyContainers, last.Add(2*time.Minute), dir)
		assert.NotContains(t, f.log.String(), "dropped", "round %d", round)
		_, oldest := f.disk.state()
		assert.Equal(t, noon, oldest, "round %d", round)
		minutes := int(last.Sub(noon)/time.Minute) + 1
		have := map[string]int{}
		_, err := f.Read(t.Context(), usage.Query{Namespaces: []string{"shop"}, Start: noon, End: last, Step: time.Minute, RateWindow: time.Minute},
			func(s usage.Series) { have[s.Pod] += len(s.Memory) })
		require.NoError(t, err)
		require.Len(t, have, killedContainers)
		for pod, n := range have {
			assert.Equal(t, minutes, n, "round %d: %s", round, pod)
		}
		f.disk.close()
	}
	assert.Positive(t, packs, "it was killed amid packs")
}

// writeAndDie runs a process until it has written so many scrapes, kills it, and returns the last scrape, and how many
// packs there were at most.
func writeAndDie(t *testing.T, dir string, from time.Time, scrapes int) (last time.Time, packs int) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^$")
	child.Env = append(os.Environ(), childDir+"="+dir, childFrom+"="+from.Format(time.RFC3339))
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	child.Stderr = os.Stderr
	require.NoError(t, child.Start())
	lines := bufio.NewScanner(out)
	for n := 0; n < scrapes && lines.Scan(); {
		words := strings.Fields(lines.Text())
		if words[0] != "wrote" {
			require.NotEqual(t, "failed:", words[0], lines.Text())
			continue
		}
		seconds, err := strconv.ParseInt(words[1], 10, 64)
		require.NoError(t, err)
		last = time.Unix(seconds, 0).UTC()
		now, err := strconv.Atoi(words[2])
		require.NoError(t, err)
		packs = max(packs, now)
		n++
	}
	require.NoError(t, child.Process.Kill())
	require.Error(t, child.Wait())
	require.False(t, last.IsZero())
	return last, packs
}
