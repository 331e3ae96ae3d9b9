package sim

import (
	"cmp"
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/test/sim/api"
)

var (
	seeds = flag.Int("sim.seeds", 0, "how many seeds TestSeeds plays; 0: as many as ATTUNE_SIM_SEEDS says, or 20")
	first = flag.Uint64("sim.seed", 1, "the first of them")
	hours = flag.Float64("sim.hours", 0, "begin no world after so many hours; 0: none is too late")
	limit = flag.Duration("sim.longest", 0, "end a world that takes longer than this; 0: none")
	ramps = flag.Bool("sim.ramps", false, "containers climb towards their limits in the worlds of all seeds, not of a third")
	all   = flag.Bool("sim.actors", false, "others act in the worlds of all seeds, not of a quarter")
	tells = flag.Bool("sim.v", false, "tell of each world what was written and how fast")
)

func TestMain(m *testing.M) {
	flag.Parse()
	debug.SetGCPercent(1000)
	longest = *limit
	if *all {
		acting = 1
	}
	os.Exit(m.Run())
}

// open are the seeds that show a defect of the product which is not mended yet; README.md says which. They are played
// where seeds are named by -sim.seed or hours by -sim.hours.
var open []uint64

// play a world, and tell what does not hold.
func play(t *testing.T, seed uint64, p plan) *world {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	w := newWorld(seed, p)
	// life is all that anybody wrote, and resizes are what pods were told: a change of sentences leaves them as they are.
	life, resizes := fnv.New64a(), fnv.New64a()
	if *tells {
		heard := w.server.Journal.Heard
		w.server.Journal.Heard = func(write api.Write) {
			fmt.Fprintln(life, write)
			if write.Kind == "Pod" {
				fmt.Fprintln(resizes, write)
			}
			heard(write)
		}
	}
	for _, v := range w.run() {
		again := fmt.Sprintf("-run '%s$'", t.Name())
		if seed > 0 {
			if *ramps {
				again += " -sim.ramps"
			}
			if *all {
				again += " -sim.actors"
			}
			again += fmt.Sprintf(" -sim.seed %d -sim.seeds 1", seed)
		}
		t.Errorf("seed %d: %s\nagain: cd test && go test ./sim %s -sim.v", seed, v, again)
	}
	if *tells {
		t.Logf("seed %d: %s of %d workloads in %s, life %016x, pods %016x; %v, passes %v; events %v, phases %v, raises %v, told %v, actors %q, targets %v", seed, w.time.now.Sub(beginning), len(p.Workloads), w.cpu.Round(time.Millisecond), life.Sum64(), resizes.Sum64(), w.watching.writes, w.watching.passes, w.told.count, w.phases, w.watching.raises, w.watching.spoken, p.Actors, w.follows)
	}
	return w
}

// seeded is the world of a seed.
func seeded(seed uint64) plan {
	p := drawn(seed)
	if *ramps || ramped(seed, p) {
		p.drawRamps(seed)
	}
	return p
}

// seedCount is the number of seeds that TestSeeds plays. The default run names it in the environment, as a flag of its own
// would keep Go from caching the result. Go tracks only what a test itself reads of the environment.
func seedCount(t *testing.T) uint64 {
	t.Helper()
	if *seeds > 0 {
		return uint64(*seeds)
	}
	count, err := strconv.ParseUint(cmp.Or(os.Getenv("ATTUNE_SIM_SEEDS"), "20"), 10, 64)
	require.NoError(t, err, "ATTUNE_SIM_SEEDS")
	return count
}

// TestSeeds plays one world for each seed, as many at a time as there are processors, until all are played or the
// hours are over.
func TestSeeds(t *testing.T) {
	t.Parallel()
	count := seedCount(t)
	began, played := time.Now(), atomic.Uint64{}
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for *hours == 0 || time.Since(began).Hours() < *hours {
				n := played.Add(1)
				if n > count {
					return
				}
				seed := *first + n - 1
				if slices.Contains(open, seed) && *first == 1 && *hours == 0 {
					t.Logf("seed %d is left to make test-long: README.md, open findings", seed)
					continue
				}
				play(t, seed, seeded(seed))
			}
		})
	}
	workers.Wait()
	t.Logf("seeds from %d on: %d", *first, min(played.Load(), count))
}

// TestClimbs plays worlds in which containers climb towards their memory limits, with what raises them before a kill.
func TestClimbs(t *testing.T) {
	for name, p := range climbing() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, 0, p)
		})
	}
}

// TestHazards plays worlds in which attune takes a workload down, or gives it an impossible size, if it does not mind.
func TestHazards(t *testing.T) {
	for name, p := range endangered() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, 0, p)
		})
	}
}

// The same seed is the same life, to the last write.
func TestTheSameSeedIsTheSameLife(t *testing.T) {
	t.Parallel()
	life := func() (lines []string) {
		p := drawn(8)
		p.Length, p.Calm, p.Troubles = 12*time.Hour, 0, []trouble{{After: 5 * time.Hour, Kind: "kill", Which: 3}, {After: 6 * time.Hour, Kind: "storm", For: time.Hour, Much: 0.3}}
		w := newWorld(8, p)
		heard := w.server.Journal.Heard
		w.server.Journal.Heard = func(write api.Write) {
			lines = append(lines, write.String())
			heard(write)
		}
		w.run()
		for _, c := range w.conditions() {
			assert.WithinRange(t, c.LastTransitionTime.Time, beginning, w.time.now.Add(time.Minute), "the time of day is in condition %s %s", c.Type, c.Reason)
		}
		return lines
	}
	assert.Equal(t, life(), life())
}

// conditions of all objects of attune.
func (w *world) conditions() (all []metav1.Condition) {
	for _, o := range w.ours() {
		switch o := o.(type) {
		case *v1alpha1.AttuneRecommendation:
			all = append(all, o.Status.Conditions...)
		case *v1alpha1.AttunePolicy:
			all = append(all, o.Status.Conditions...)
		case *v1alpha1.AttuneClusterPolicy:
			all = append(all, o.Status.Conditions...)
		}
	}
	return all
}

// TestWorlds plays lives that went wrong once.
func TestWorlds(t *testing.T) {
	for name, p := range worlds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, 0, p)
		})
	}
}
