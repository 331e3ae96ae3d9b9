package replicas

import (
	"cmp"
	"flag"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/recommender"
	"attune.io/attune/recommender/replicas"
	"attune.io/attune/usage/csvfile"
)

var traces = flag.String("traces", "", "folder with smaug.open.csv.gz and google2019.open.csv.gz; without it, made-up usage of half a day")
var most = flag.Int("workloads", 12, "how many series of each trace to take, at most")

// series is usage by the minute, in millicores.
type series struct {
	name  string
	usage []float64
}

// madeUp are series with a daily rhythm, a quiet one and one with bursts.
func madeUp() (all []series) {
	const minutes = 12 * 60
	for kind, name := range []string{"rhythm", "quiet", "bursts"} {
		s := series{name: name}
		for m := range minutes {
			v := 400.
			switch kind {
			case 0:
				v += 300 * math.Sin(2*math.Pi*float64(m)/(24*60))
			case 2:
				if chance(m/10, 7) < 0.02 {
					v *= 3
				}
			}
			s.usage = append(s.usage, v*(0.95+0.1*chance(m, kind)))
		}
		all = append(all, s)
	}
	return all
}

// readTrace takes series over the whole range of sizes. What was not measured is as it was last.
func readTrace(t *testing.T, file string, days int) (all []series) {
	t.Helper()
	read, _, err := csvfile.All(file)
	require.NoError(t, err)
	for _, of := range read {
		s, last := series{name: of.ID}, 0.
		at := of.Samples[0].At / 60_000
		for _, sample := range of.Samples {
			for ; at < sample.At/60_000; at++ {
				s.usage = append(s.usage, last)
			}
			if v := sample.Used[recommender.CPU]; !math.IsNaN(v) {
				last = 1000 * v
			}
		}
		s.usage = s.usage[:min(len(s.usage), days*24*60)]
		if len(s.usage) >= 3*24*60 && quantile(s.usage, 0.95) >= 20 {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b series) int { return cmp.Compare(quantile(a.usage, 0.95), quantile(b.usage, 0.95)) })
	for n := len(all); n > *most; n = len(all) {
		var some []series
		for i := range *most {
			some = append(some, all[i*n / *most])
		}
		all = some
	}
	return all
}

func quantile(of []float64, q float64) float64 {
	sorted := slices.Clone(of)
	slices.Sort(sorted)
	return sorted[int(q*float64(len(sorted)-1))]
}

// app is a workload under an HPA.
type app struct {
	name    string
	scaler  replicas.Scaler
	request int64
	demand  []float64
	until   int // the history ends at this tick
	before  *deployment
	// wanted is what would be requested without an HPA: the 95th percentile of a pod's usage and 15 %.
	wanted int64
}

// apps put a series under HPAs that were set with too little, about the right, and too much CPU.
func apps(all []series) (out []*app) {
	for i, s := range all {
		for _, generous := range []float64{0.4, 1, 2.5} {
			a := &app{name: fmt.Sprintf("%s-%d-%v", "s", i, generous), demand: s.usage}
			a.scaler = replicas.Scaler{Min: 2, Max: 20, Target: []int32{50, 65, 80}[i%3], Up: replicas.DefaultTolerance, Down: replicas.DefaultTolerance}
			a.request = max(10, int64(generous*quantile(s.usage, 0.95)/2*100/float64(a.scaler.Target)))
			a.until = len(s.usage) * 4 / 2
			out = append(out, a)
		}
	}
	return out
}

func (a *app) start() *deployment {
	return &deployment{scaler: a.scaler, request: a.request, demand: a.demand}
}

// keep chooses a request: the wanted one, or the nearest to it that keeps the number with a margin.
func (a *app) keep(margin float64) int64 {
	kept := a.scaler.Keep(a.before.history.spans, float64(a.request)).WithMargin(float64(a.request), margin)
	if kept.Least >= kept.Greatest {
		return a.request
	}
	return min(a.request, max(a.wanted, int64(kept.Least)+1))
}

// retarget chooses a request, with its target: the wanted one, or the nearest to it that keeps the number.
func (a *app) retarget() (int64, int32) {
	const within = 0.02 // is how wide the spans of usage/history are
	spans := slices.Clone(a.before.history.spans)
	for i := range spans {
		spans[i].Least *= (1 - within) / (1 - widened)
		spans[i].Greatest *= (1 + within) / (1 + widened)
	}
	of := replicas.Threshold{Target: a.scaler.Target, Request: float64(a.request)}
	request := min(a.request, max(a.wanted, int64(a.scaler.Retarget(of, spans).Least)+1))
	return request, of.At(float64(request))
}

// outcome of one way to choose requests.
type outcome struct {
	apps, changed, unsafe           int
	syncs, past, pastDiffer, differ int
	fewer                           int // syncs of differ with fewer replicas than without attune
	requested, freed                float64
}

func (o *outcome) add(a *app, with *deployment) {
	o.apps++
	if with.request != a.request || with.scaler != a.scaler {
		o.changed++
	}
	unsafe := 0
	for tick, number := range a.before.asked[:min(len(a.before.asked), len(with.asked))] {
		same := with.asked[tick] == number
		if tick < a.until {
			o.past++
			if !same {
				o.pastDiffer++
			}
			continue
		}
		o.syncs++
		if !same {
			o.differ++
			unsafe = 1
		}
		if with.asked[tick] < number {
			o.fewer++
		}
		o.requested += float64(a.request) * float64(number)
		o.freed += float64(a.request)*float64(number) - float64(with.request)*float64(with.asked[tick])
	}
	o.unsafe += unsafe
}

func (o *outcome) String() string {
	share := func(of, all int) float64 { return 100 * float64(all-of) / float64(max(1, all)) }
	return fmt.Sprintf("| %d of %d | %.3f %% | %.3f %% | %d | %.2f %% | %.1f %% |", o.changed, o.apps, share(o.pastDiffer, o.past), share(o.differ, o.syncs), o.unsafe,
		100*float64(o.fewer)/float64(max(1, o.syncs)), 100*o.freed/o.requested)
}

// TestSwingsWithinAMinute: an HPA sees means of 15 seconds, the history those of minutes. Swings within the minutes lead to
// another number if they are larger than the margin and what the spans are wider.
func TestSwingsWithinAMinute(t *testing.T) {
	const length = 6 * time.Hour
	quiet := madeUp()[1].usage[:length/time.Minute]
	for _, swing := range []float64{0.1, 0.2, 0.4} {
		a := &app{scaler: percent(65, 2, 20), demand: quiet, until: int(length / syncs), wanted: 1}
		a.request = int64(2.5 * quantile(quiet, 0.95) / 2 / 0.65)
		start := func() *deployment {
			d := a.start()
			d.swing = swing
			return d
		}
		a.before = start()
		a.before.history = &history{until: a.until}
		play(t, map[string]*deployment{"before": a.before}, length)
		worlds := map[string]*deployment{}
		margins := []float64{0, 0.1, 0.2, 0.3, 0.5}
		for _, m := range margins {
			d := start()
			d.request = a.keep(m)
			worlds[fmt.Sprint(m)] = d
		}
		play(t, worlds, length)
		for _, m := range margins {
			d, o := worlds[fmt.Sprint(m)], outcome{}
			o.add(a, d)
			t.Logf("swings of %2.0f %%, margin %2.0f %%: request %dm instead of %dm, %.1f %% of the syncs differ", 100*swing, 100*m, d.request, a.request,
				100*float64(o.pastDiffer)/float64(o.past))
			if swing <= m+widened {
				assert.Zero(t, o.pastDiffer)
			} else {
				assert.Positive(t, o.pastDiffer)
			}
		}
	}
}

// TestTraces: upstream's controller scales workloads with the usage of traces, with the old and with the new requests.
// In the history that the proof saw, the number of replicas is the same at each sync.
func TestTraces(t *testing.T) {
	sets := map[string][]series{"made up": madeUp()}
	if *traces != "" {
		sets = map[string][]series{
			"smaug":      readTrace(t, filepath.Join(*traces, "smaug.open.csv.gz"), 4),
			"google2019": readTrace(t, filepath.Join(*traces, "google2019.open.csv.gz"), 8),
		}
	}
	for name, all := range sets {
		t.Run(name, func(t *testing.T) { playTrace(t, all) })
	}
}

func playTrace(t *testing.T, all []series) {
	t.Helper()
	began := time.Now()
	workloads := apps(all)
	length := 0
	before := map[string]*deployment{}
	for _, a := range workloads {
		a.before = a.start()
		a.before.history = &history{until: a.until}
		before[a.name] = a.before
		length = max(length, len(a.demand))
	}
	play(t, before, time.Duration(length)*time.Minute)
	t.Logf("%d workloads, %d minutes, played in %v", len(workloads), length, time.Since(began).Round(time.Second))
	for _, a := range workloads {
		var each []float64
		for tick := range a.until {
			each = append(each, a.demand[tick/4]/float64(a.before.asked[tick]))
		}
		a.wanted = max(10, int64(1.15*quantile(each, 0.95)))
	}
	worlds := map[string]*deployment{}
	margins := []float64{0, 0.3}
	if *traces != "" {
		margins = []float64{0, 0.1, 0.2, 0.3, 0.5, 1}
	}
	chosen := map[string]*deployment{} // by way and app
	for _, a := range workloads {
		same := map[int64]*deployment{a.request: a.before}
		for _, m := range margins {
			request := a.keep(m)
			if same[request] == nil {
				d := a.start()
				d.request = request
				same[request] = d
				worlds[fmt.Sprint(a.name, "-", request)] = d
			}
			chosen[fmt.Sprint(m, a.name)] = same[request]
		}
		d := a.start()
		d.request, d.scaler.Target = a.retarget()
		chosen["retarget"+a.name], worlds[a.name+"-retarget"] = d, d
		d = a.start()
		d.request = min(a.request, a.wanted)
		d.scaler.Target = max(1, int32(math.Round(float64(a.scaler.Target)*float64(a.request)/float64(d.request))))
		chosen["rewritten"+a.name], worlds[a.name+"-rewritten"] = d, d
	}
	play(t, worlds, time.Duration(length)*time.Minute)
	t.Logf("%d workloads with other requests, played in %v", len(worlds), time.Since(began).Round(time.Second))
	for _, group := range []string{"all", "active", "at the minimum"} {
		rows := map[string]*outcome{}
		var ways []string
		for _, m := range margins {
			ways = append(ways, fmt.Sprint(m))
		}
		ways = append(ways, "retarget", "rewritten")
		for _, a := range workloads {
			moves := slices.Max(a.before.asked) > a.scaler.Min
			if group == "active" && !moves || group == "at the minimum" && moves {
				continue
			}
			for _, way := range ways {
				if rows[way] == nil {
					rows[way] = &outcome{}
				}
				rows[way].add(a, chosen[way+a.name])
			}
		}
		for _, way := range ways {
			if o := rows[way]; o != nil {
				t.Logf("%-15s| %-9s %s", group, way, o)
				if way == "retarget" {
					assert.LessOrEqual(t, 1000*o.differ, o.syncs, "%s: late syncs", group)
				}
				if way != "rewritten" {
					assert.Zero(t, o.pastDiffer, "%s, margin %s: syncs of the history at which the number differs", group, way)
				}
			}
		}
	}
}
