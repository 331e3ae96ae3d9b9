package sim

import (
	"context"
	"math/rand/v2"
	"time"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize/lifecycle"
)

// formerly returns a record as the version before stored it, which had names for fewer phases: a second patch was
// Written with a generation, a pod that leaves its node Withdrawing with that reason, and a denied eviction
// Withdrawing with a deadline.
func formerly(record v1alpha1.ResizeRecord) v1alpha1.ResizeRecord {
	switch record.Phase {
	case v1alpha1.RecordSecondWritten:
		record.Phase = v1alpha1.RecordWritten
	case v1alpha1.RecordLeaving, v1alpha1.RecordEvictionDenied:
		record.Phase = v1alpha1.RecordWithdrawing
	}
	return record
}

// renamed reports whether the version before had another name for the phase of a record.
func renamed(record v1alpha1.ResizeRecord) bool { return formerly(record).Phase != record.Phase }

// formerVersion stores the open records as the version before did.
func (w *world) formerVersion() {
	w.watching.disturbed("the version before was here")
	for _, o := range w.server.Stored(&v1alpha1.AttuneRecommendation{}) {
		rec, found := o.DeepCopyObject().(*v1alpha1.AttuneRecommendation), false
		for i, record := range rec.Status.Records {
			if !renamed(record) {
				continue
			}
			found = true
			w.met[record.Phase]++
			rec.Status.Records[i] = formerly(record)
		}
		if found {
			w.must(w.people.Status().Update(context.Background(), rec))
		}
	}
}

// takeover: the version before leads for a moment, and this one follows it, after a pause or while the other replica
// still goes on for up to 10 seconds.
func (w *world) takeover(pause bool, d time.Duration) {
	if w.leader == nil {
		w.formerVersion() // between two processes
		return
	}
	if pause {
		w.bury(w.leader)
		w.formerVersion()
		return
	}
	w.formerVersion()
	w.succeed(d)
}

// takeovers by name. They are no part of the seeds' own troubles.
var takeovers = map[string]func(w *world, t trouble){
	"the version before leads": func(w *world, t trouble) {
		w.takeover(t.Which%2 == 0, time.Duration(t.Much*float64(10*time.Second)))
	},
	// It comes as soon as there is a record whose phase it names otherwise: the process that stored it is killed within
	// its next calls, or is followed a moment later.
	"the version before meets a record": func(w *world, t trouble) {
		w.whenStored(renamed, func(v1alpha1.ResizeRecord) {
			if t.Which%2 == 0 && w.leader != nil {
				w.leader.left = t.Which / 2 % 3
				w.time.after(w.plan.Down/2, w.formerVersion)
				return
			}
			w.time.after(time.Duration(t.Which%20)*100*time.Millisecond, func() { w.takeover(false, time.Duration(t.Much*float64(10*time.Second))) })
		})
	},
}

// drawTakeovers has random numbers of its own, as further has.
func (p *plan) drawTakeovers(seed uint64) {
	r, span := rand.New(rand.NewPCG(seed, 0xbe4)), p.Length-p.Calm-2*time.Hour
	p.drawPhases(r)
	for _, of := range []struct {
		kind   string
		within time.Duration
	}{{"growth", span}, {"the version before leads", span}, {"the version before meets a record", span / 4}} {
		for range 1 + r.IntN(int(2+p.Length.Hours()/8)) {
			p.Troubles = append(p.Troubles, trouble{After: time.Duration(r.Int64N(int64(of.within))), Kind: of.kind, Which: r.IntN(1 << 16), Much: r.Float64()})
		}
	}
}

// drawPhases makes records of all phases likely: the operator sees that new pods are sized, nodes may evict and are
// hardly larger than what is in use, and page cache keeps memory limits from falling at once.
func (p *plan) drawPhases(r *rand.Rand) {
	p.Labelled = p.Seeds
	p.Clusterwide = false // it knows none
	memory := 0.0
	for i := range p.Workloads {
		w := &p.Workloads[i]
		w.Demand.cache = w.Demand.memory * r.Float64()
		memory += w.Demand.memory * float64(int(w.Replicas)*len(w.Containers))
	}
	p.NodeMemory = bytes(max(2*gib, int64(memory*(2+2*r.Float64()))/int64(p.Nodes)))
	byNode := r.IntN(2) == 0
	for i := range p.Policies {
		spec := &p.Policies[i].Spec
		spec.Node = &v1alpha1.NodeSettings{Eviction: ptr(v1alpha1.Enabled)}
		if u := spec.UpdateStrategy; byNode {
			u.Type, spec.Strategy, spec.CPU.StartupBoost = ptr(v1alpha1.UpdateAuto), ptr(v1alpha1.StrategyNode), nil
		} else {
			u.ResizeMethod = ptr(v1alpha1.ResizeInPlaceOrRecreate)
		}
	}
}

// whenStored does something once, within the write that stores such a record.
func (w *world) whenStored(such func(v1alpha1.ResizeRecord) bool, do func(v1alpha1.ResizeRecord)) {
	w.waiters = append(w.waiters, func(rec *v1alpha1.AttuneRecommendation) bool {
		for _, record := range rec.Status.Records {
			if such(record) {
				do(record)
				return false
			}
		}
		return true
	})
}

// stored counts the phases of records, and tells those who wait for one. A record whose other fields do not tell its
// phase would be continued as something else where the version before has stored it.
func (w *world) stored(rec *v1alpha1.AttuneRecommendation) {
	for _, record := range rec.Status.Records {
		w.phases[record.Phase]++
		if read := lifecycle.Named(formerly(record)).Phase; read != record.Phase && len(w.met) == 0 {
			w.violate("phases are told", "the record of pod %s is %s; as the version before stores it, it is read as %s: %+v", record.PodName, record.Phase, read, record)
		}
	}
	was := w.waiters
	w.waiters = nil
	for _, waits := range was {
		if waits(rec) {
			w.waiters = append(w.waiters, waits)
		}
	}
}
