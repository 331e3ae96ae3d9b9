package policy

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/tuning/targets"
	"attune.io/attune/usage/history"
)

// Workloads with the same identity share their history (workload.Shared).

// runs are the Jobs of one identity. Between two runs there may be no Job, so the newest one is kept.
type runs struct {
	// newest Job, which has the template.
	newest workload.Workload
	// names of the latest Jobs, the newest last. Usage of a Job is read up to a few steps after it was deleted.
	names []string
	// live reports that a Job exists. mixed reports that different policies size the Jobs; without a Job it stays.
	live, mixed bool
}

const (
	// mostEnded is how many names of deleted Jobs are kept for an identity, mostDormant how many identities without a
	// Job for a namespace, and forgetRuns for how long after the newest Job was created. The workload loop deletes the
	// recommendation after the same time.
	mostEnded   = 500
	mostDormant = 200
	forgetRuns  = 7 * 24 * time.Hour
)

// workload returns the Jobs as one workload. If there are more workloads than attune sizes, those without a Job are
// left out first.
func (r runs) workload() workload.Workload {
	w := r.newest.AsShared()
	w.Ended = !r.live
	return w
}

// fold replaces the Jobs of each identity by one workload, in the given slice. before are the identities of the last
// matching. jobs are the present Jobs of each identity.
func fold(workloads []workload.Workload, before map[workload.Identity]runs) (folded []workload.Workload, jobs map[workload.Identity][]workload.Workload, all map[workload.Identity]runs) {
	jobs, all = map[workload.Identity][]workload.Workload{}, map[workload.Identity]runs{}
	folded = workloads[:0]
	for _, w := range workloads {
		if id := w.RecommendedAs(); id != w.Identity {
			jobs[id] = append(jobs[id], w)
		} else {
			folded = append(folded, w)
		}
	}
	for id, present := range jobs {
		slices.SortFunc(present, func(a, b workload.Workload) int {
			return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
		})
		names := podview.Map(present, func(w workload.Workload) string { return w.Name })
		live := make(map[string]bool, len(names))
		for _, name := range names {
			live[name] = true
		}
		ended := slices.DeleteFunc(slices.Clone(before[id].names), func(name string) bool { return live[name] })
		ended = ended[max(0, len(ended)-mostEnded):]
		all[id] = runs{newest: present[len(present)-1], names: append(ended, names...), live: true}
	}
	var dormant []workload.Identity
	for id := range before {
		if _, present := all[id]; !present {
			dormant = append(dormant, id)
		}
	}
	slices.SortFunc(dormant, func(a, b workload.Identity) int {
		return cmp.Or(before[b].newest.Created.Compare(before[a].newest.Created), cmp.Compare(a.Name, b.Name))
	})
	for _, id := range dormant[:min(len(dormant), mostDormant)] {
		of := before[id]
		of.live, of.names = false, of.names[max(0, len(of.names)-mostEnded):]
		all[id] = of
	}
	for _, id := range slices.SortedFunc(maps.Keys(all), func(a, b workload.Identity) int { return cmp.Compare(a.Name, b.Name) }) {
		folded = append(folded, all[id].workload())
	}
	return folded, jobs, all
}

// withoutOld drops identities that have had no Job for forgetRuns. It returns m itself if there are none; m may be nil.
func (m *matching) withoutOld(now time.Time) *matching {
	if m == nil {
		return nil
	}
	young := maps.Clone(m.runs)
	maps.DeleteFunc(young, func(_ workload.Identity, r runs) bool { return !r.live && now.Sub(r.newest.Created) > forgetRuns })
	if len(young) == len(m.runs) {
		return m
	}
	kept := *m
	kept.runs, kept.workloads = young, 0
	return &kept
}

// settleRuns matches the Jobs of an identity: by the newest. If another policy or none sizes another of them, none is
// sized, because a created pod has only the identity.
func (m *matching) settleRuns(id workload.Identity, jobs []workload.Workload, settle func(workload.Workload) match) match {
	of := m.runs[id]
	s := settle(of.newest)
	for _, job := range jobs {
		if other := settle(job); other.winner != s.winner {
			s.winner, of.mixed = cmp.Or(s.winner, other.winner), true
		}
	}
	m.runs[id], s.mixed = of, of.mixed
	return s
}

// agree returns the identity of each workload with one, if the same policy sizes all workloads of that kind and
// identity: a workload that is created next may then start with their recommendation.
func (m *matching) agree(workloads []workload.Workload) map[workload.Identity]string {
	winners, differ := map[workload.KindName]string{}, map[workload.KindName]bool{}
	of := func(w workload.Workload) workload.KindName { return workload.KindName{Kind: w.Kind, Name: w.Shared()} }
	for _, w := range workloads {
		winner := m.settled[w.Identity].winner
		if known, ok := winners[of(w)]; ok && known != winner {
			differ[of(w)] = true
		}
		winners[of(w)] = winner
	}
	out := map[workload.Identity]string{}
	for _, w := range workloads {
		if shared := w.Shared(); shared != "" && !differ[of(w)] {
			out[w.Identity] = shared
		}
	}
	return out
}

// namesOf returns the names of a workload's objects: those of the latest Jobs of an identity, otherwise its own.
func (m matched) namesOf(w workload.Workload) []string {
	if w.IsShared() {
		return m.runs[w.Identity].names
	}
	return []string{w.Name}
}

// wantedHistories returns the histories that a policy wants: one for each workload, and one for the workloads of one
// kind with the same identity and the same sized containers.
func wantedHistories(p *v1alpha1.AttunePolicy, settings policy.Settings, m matched) (wanted []history.Workload, members map[workload.KindName][]workload.KindName) {
	members = map[workload.KindName][]workload.KindName{}
	for _, w := range m.won {
		names := podview.Map(targets.Sized(w.Template, settings), func(c *corev1.Container) string { return c.Name })
		shared := w.Shared()
		switch {
		case len(names) == 0:
			continue
		case w.IsShared():
			wanted = append(wanted, history.Workload{Kind: w.Kind, Name: w.Name, Containers: names})
			for _, name := range m.namesOf(w) {
				members[kindName(w.Identity)] = append(members[kindName(w.Identity)], workload.KindName{Kind: w.Kind, Name: name})
			}
			continue
		case shared == "":
			wanted = append(wanted, history.Workload{Kind: w.Kind, Name: w.Name, Containers: names})
			if sets := m.adopted[w.Identity]; len(sets) > 0 {
				members[kindName(w.Identity)] = append([]workload.KindName{kindName(w.Identity)}, sets...)
			}
			continue
		}
		slices.Sort(names)
		group := workload.KindName{Kind: w.Kind, Name: strings.Join([]string{workload.SharedName(shared), p.Name, strings.Join(names, ",")}, "/")}
		if members[group] == nil {
			wanted = append(wanted, history.Workload{Kind: group.Kind, Name: group.Name, Containers: names})
		}
		members[group] = append(append(members[group], kindName(w.Identity)), m.adopted[w.Identity]...)
	}
	return wanted, members
}

func kindName(id workload.Identity) workload.KindName {
	return workload.KindName{Kind: id.Kind, Name: id.Name}
}

// keepUnseen removes recommendations from known that must stay although no Job of their identity has been seen since
// the start of the process: the next run needs their seed. They stay as they are, and only under unchanged settings.
func (s *sizer) keepUnseen(m matched) {
	maps.DeleteFunc(s.known, func(_ string, rec *v1alpha1.AttuneRecommendation) bool {
		id := workload.IdentityOf(rec)
		_, seen := m.settled[id]
		return id.IsShared() && !seen && rec.Spec.Policy.UID == s.policy.UID &&
			rec.Spec.SettingsDigest == s.digest && rec.Spec.Mode == s.settings.Resize.Mode
	})
}
