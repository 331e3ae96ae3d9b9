package ui

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/answers"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
)

// savedPage is the model of the pages of savings: of all namespaces, or of one.
type savedPage struct {
	At time.Time
	// Namespace is empty on the page of all.
	Namespace string
	// Sentences are those of kubectl attune savings, Autoscaler what freed requests are.
	Sentences  [3]string
	Autoscaler string
	Workloads  int
	Rows       []savedRow
	Pages
}

// savedRow is what a namespace or a workload saves. Each pair is of CPU, memory and money a month.
type savedRow struct {
	Name, Path          string
	Workloads           int
	Realised, Potential [3]string
	NotCounted          string
}

func savingsPath(namespace string) string {
	if namespace == "" {
		return Path + "savings"
	}
	return Path + "savings/" + segment(namespace)
}

// savedOf adds up what workloads save, and keeps the rows of the page alone. false: the context ended before all was added up.
func savedOf(ctx context.Context, c Cluster, namespace string, page int, of func(*v1alpha1.AttuneRecommendation) answers.SavingsEntry) (savedPage, bool) {
	out := savedPage{At: c.At, Namespace: namespace, Autoscaler: answers.NodeAutoscalerText, Workloads: len(c.Recommendations)}
	var sums answers.SavingsSums
	recs := byName(c.Recommendations)
	if namespace != "" {
		out.Pages = pagesOf(savingsPath(namespace), page, len(recs))
	}
	for i, rec := range recs {
		if ctx.Err() != nil {
			return out, false
		}
		e := of(rec)
		sums.Add(e)
		if i >= out.first && i < out.last {
			w, id := answers.SavingsRowOf(e, true), workload.IdentityOf(rec)
			out.Rows = append(out.Rows, savedRow{
				Name: id.String(), Path: pathOf(id), Realised: cells(w.Realised), Potential: cells(&w.Potential), NotCounted: answers.NotCountedText(w.NotCounted),
			})
		}
	}
	out.Sentences = sums.Total(true).Sentences()
	if namespace == "" {
		all := sums.Namespaces(true)
		out.Pages = pagesOf(savingsPath(""), page, len(all))
		for _, sum := range all[out.first:out.last] {
			out.Rows = append(out.Rows, savedRow{
				Name: sum.Namespace, Path: savingsPath(sum.Namespace), Workloads: sum.Workloads, Realised: cells(sum.Realised), Potential: cells(&sum.Potential),
				NotCounted: sum.NotCounted.Sentence(),
			})
		}
	}
	return out, true
}

// cells are CPU, memory and price.
func cells(s *answers.Saved) [3]string {
	return [3]string{answers.Readable(recommender.CPU, s.CPU), answers.Readable(recommender.Memory, s.Memory), orDash(s.Money())}
}

// byName sorts recommendations by namespace, kind and name. They are the caches' own.
func byName(all []v1alpha1.AttuneRecommendation) []*v1alpha1.AttuneRecommendation {
	recs := make([]*v1alpha1.AttuneRecommendation, len(all))
	for i := range all {
		recs[i] = &all[i]
	}
	slices.SortFunc(recs, func(a, b *v1alpha1.AttuneRecommendation) int {
		x, y := a.Spec.Workload, b.Spec.Workload
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Name, y.Name))
	})
	return recs
}

// saving is what one workload saves.
type saving struct {
	Sentences  [3]string
	Autoscaler string
	NotCounted []answers.NotCounted
}

// savingOf makes the part of a workload's page; nil: nothing is known.
func savingOf(e *answers.SavingsEntry) *saving {
	if e == nil {
		return nil
	}
	var one answers.SavingsAdder
	one.Add(*e)
	return &saving{one.Sum(true).Sentences(), answers.NodeAutoscalerText, e.Figures.NotCounted}
}

const (
	// addedWithin is how long the savings of all workloads may take to be added up, with the wait for others. A workload of three
	// pods takes some 25 µs beside reading it.
	addedWithin = 6 * time.Second
	// addedFor is how long a page of savings is shown again.
	addedFor = 15 * time.Second
	// mostAdding is how many requests add up or wait: others than savings are to be answered meanwhile.
	mostAdding = 2
)

// additions has pages of savings made one at a time, and keeps the last one for addedFor: viewers in a loop cost one
// processor at most, and on one page next to nothing.
type additions struct {
	// places are those of the requests that add up or wait, and turn is that of the one that adds up.
	places, turn chan struct{}

	// mutex guards what follows: the page that was made last, whose it is, and when.
	mutex sync.Mutex
	path  string
	page  int
	last  savedPage
	made  time.Time
}

func newAdditions() *additions {
	return &additions{places: make(chan struct{}, mostAdding), turn: make(chan struct{}, 1)}
}

// begin waits for the turn, which is had at once where nobody else has it. false: too many wait already, or the context ended
// before.
func (a *additions) begin(ctx context.Context) bool {
	select {
	case a.places <- struct{}{}:
	default:
		return false
	}
	select {
	case a.turn <- struct{}{}:
		return true
	default:
	}
	select {
	case a.turn <- struct{}{}:
		return true
	case <-ctx.Done():
		<-a.places
		return false
	}
}

// end gives the turn to the next.
func (a *additions) end() { <-a.turn; <-a.places }

// known is the page of a path, if it is the last one and not too old.
func (a *additions) known(path string, page int) (savedPage, bool) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return a.last, a.path == path && a.page == page && time.Since(a.made) < addedFor
}

// keep a page that was made now.
func (a *additions) keep(path string, page int, made savedPage) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.path, a.page, a.last, a.made = path, page, made, time.Now()
}
