package resize

import (
	"reflect"
	"runtime"
	"slices"
	"strings"
)

// Unexported names that the tests of this package need.
const (
	MostAlike    = mostAlike
	RefusedQuota = refusedQuota
)

var (
	MinorOf     = minor
	QuotaGate   = quota
	Steps       = openSteps
	TriedLately = triedLately
)

// Kinds are the names of the kinds of resizes, and then of the questions that only some gates answer.
var Kinds = []string{"step", "answer", WaveUndo, WaveTemplate, WaveRestore, WaveBoost, WaveSpike, "standing", "begins", "stopping", "reverts"}

// Gate is a row of the tables of gates, by names.
type Gate struct {
	Name           string
	Narrows        bool
	Kinds, Reasons []string
}

// Gates are all gates and narrowings in the order in which a resize passes them.
func Gates() []Gate { return slices.Concat(rowsOf(gates), rowsOf(narrowings), rowsOf(lastGates)) }

func rowsOf[F any](rows []row[F]) (all []Gate) {
	for _, r := range rows {
		name := runtime.FuncForPC(reflect.ValueOf(r.check).Pointer()).Name()
		g := Gate{Name: name[strings.LastIndex(name, ".")+1:], Reasons: r.reasons}
		_, g.Narrows = any(r.check).(narrowing)
		for i, kind := range []kinds{step, answers, undos, templates, restores, boosts, spikes, standing, begins, stopping, reverts} {
			if r.kinds&kind != 0 {
				g.Kinds = append(g.Kinds, Kinds[i])
			}
		}
		all = append(all, g)
	}
	return all
}
