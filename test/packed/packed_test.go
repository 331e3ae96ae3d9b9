package packed

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var traces = flag.String("traces", "", "a folder with traces (smaug.open.csv.gz, google2011.open.csv.gz); without it a trace of the project's own is played")

const day = 24 * time.Hour

// plays of traces that are known.
var plays = map[string]Play{
	"smaug.open.csv.gz":      {Warm: 3 * day, Arrive: 4 * time.Hour, Settle: time.Hour, Measure: 1300 * time.Minute, NodeCPU: 4000, MostPods: 60},
	"google2011.open.csv.gz": {Warm: 4 * day, Arrive: 4 * time.Hour, Settle: time.Hour, Measure: day, NodeCPU: 16_000, MostPods: 60},
}

// synthetic is a week of workloads with days and bursts of their own.
func synthetic(workloads, days int) *Usage {
	r := rand.New(rand.NewPCG(1, 2))
	u := newUsage(days * 1440)
	for w := range workloads {
		base, swing, phase, burst := math.Exp(r.NormFloat64())*0.05, r.Float64(), r.Float64()*2*math.Pi, 1+r.ExpFloat64()*3
		for replica := range 1 + r.IntN(4) {
			cores := make([]float64, u.minutes)
			for m := range cores {
				cores[m] = base * (1 + swing*math.Sin(float64(m)/1440*2*math.Pi+phase)) * (0.85 + 0.3*r.Float64())
				if m%180 < 4+w%7 && r.IntN(3) > 0 {
					cores[m] *= burst
				}
			}
			u.add(fmt.Sprintf("app%02d@%d", w, replica), cores)
		}
	}
	return u
}

// TestPacked: on every trace nobody goes while everybody would fit, and less is reserved than with static requests. What
// the strategies cost and save beside is logged as a table.
func TestPacked(t *testing.T) {
	type played struct {
		name  string
		usage *Usage
		play  Play
	}
	all := []played{{"a trace of the project's own", synthetic(40, 4), Play{Warm: 2 * day, Arrive: 4 * time.Hour, Settle: time.Hour, Measure: 20 * time.Hour, NodeCPU: 4000, MostPods: 60}}}
	for name, play := range plays {
		path := filepath.Join(*traces, name)
		if _, err := os.Stat(path); *traces == "" || err != nil {
			t.Logf("%s is not here (-traces): %v", name, err)
			continue
		}
		usage, err := Read(path)
		require.NoError(t, err)
		all = append(all, played{name, usage, play})
	}
	for _, p := range all {
		t.Run(p.name, func(t *testing.T) {
			static := Run(p.usage, p.play, Static())
			t.Logf("%s: %d pods, used %.1f cores\n%s\n%v", p.name, static.Pods, static.Used, Header, static)
			t.Log(Run(p.usage, p.play, Workload()))
			t.Log(Run(p.usage, p.play, Admissions()))
			for _, evict := range []bool{false, true} {
				p.play.Evict = evict
				found := Run(p.usage, p.play, Node())
				if evict {
					found.Strategy = "Node, evictions"
				}
				t.Log(found)
				assert.Zero(t, found.Needless)
				assert.Less(t, found.Reserved, static.Reserved)
				assert.Less(t, found.Resizes, 2.0, "a pod and hour")
				assert.LessOrEqual(t, found.Busiest, 8, "resizes of a pod within an hour")
			}
		})
	}
}
