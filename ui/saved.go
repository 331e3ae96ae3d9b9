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
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// savedPage is the model of the savings page, of all namespaces or of one.
type savedPage struct {
	At time.Time
	// Namespace is empty on the page of all namespaces.
	Namespace string
	// Sentences are the same as in kubectl attune savings. Autoscaler says when freed requests save money.
	Sentences  []string
	Autoscaler string
	Workloads  int
	Rows       []savedRow
	Pages
}

// savedRow has the savings of a namespace or a workload. Each array holds CPU, memory and money per month.
type savedRow struct {
	Name, Path       string
	Workloads        int
	Saved, Available [3]string
	NotCounted       string
}

func savingsPath(namespace string) string {
	if namespace == "" {
		return Path + "savings"
	}
	return Path + "savings/" + segment(namespace)
}

// savedOf sums the savings of all workloads and keeps only the rows of this page. It returns false if ctx ended
// before the sum was complete.
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
				Name: id.String(), Path: pathOf(id), Saved: cells(w.Saved), Available: cells(&w.Available), NotCounted: answers.NotCountedText(w.NotCounted),
			})
		}
	}
	out.Sentences = sums.Total(true).Sentences()
	if namespace == "" {
		all := sums.Namespaces(true)
		out.Pages = pagesOf(savingsPath(""), page, len(all))
		for _, sum := range all[out.first:out.last] {
			out.Rows = append(out.Rows, savedRow{
				Name: sum.Namespace, Path: savingsPath(sum.Namespace), Workloads: sum.Workloads, Saved: cells(sum.Saved), Available: cells(&sum.Available),
				NotCounted: sum.NotCounted.Sentence(),
			})
		}
	}
	return out, true
}

// cells formats CPU, memory and price.
func cells(s *answers.Saved) [3]string {
	return [3]string{answers.Readable(recommender.CPU, s.CPU), answers.Readable(recommender.Memory, s.Memory), orDash(s.Money())}
}

// byName sorts recommendations by namespace, kind and name. The result points into all.
func byName(all []v1alpha1.AttuneRecommendation) []*v1alpha1.AttuneRecommendation {
	recs := podview.Pointers(all)
	slices.SortFunc(recs, func(a, b *v1alpha1.AttuneRecommendation) int {
		x, y := a.Spec.Workload, b.Spec.Workload
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Name, y.Name))
	})
	return recs
}

// saving has the savings of one workload.
type saving struct {
	Sentences  []string
	Autoscaler string
	NotCounted []answers.NotCounted
}

// savingOf builds the savings part of a workload's page; nil if they are not known.
func savingOf(e *answers.SavingsEntry) *saving {
	if e == nil {
		return nil
	}
	var one answers.SavingsAdder
	one.Add(*e)
	return &saving{one.Sum(true).Sentences(), answers.NodeAutoscalerText, e.Figures.NotCounted}
}

const (
	// addedWithin limits a savings request, including the wait for other requests. Computing a workload of three pods
	// takes some 25 µs, plus the time to read it.
	addedWithin = 6 * time.Second
	// addedFor is how long a computed savings page is reused.
	addedFor = 15 * time.Second
	// mostAdding limits the requests that compute savings or wait to do so, so that other pages stay responsive.
	mostAdding = 2
)

// additions computes savings pages one at a time and reuses the last one for addedFor. Viewers that reload in a
// loop cost one CPU at most, and almost nothing if they reload the same page.
type additions struct {
	// places has a slot for each request that computes or waits. turn is held by the request that computes.
	places, turn chan struct{}

	// mutex guards the fields below: the last page, its path, its number and the time when it was computed.
	mutex sync.Mutex
	path  string
	page  int
	last  savedPage
	made  time.Time
}

// begin waits until no other request computes. It returns false if too many requests wait already, or if ctx ended
// first.
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

// end lets the next request compute.
func (a *additions) end() { <-a.turn; <-a.places }

// known returns the last page and true if it has this path and number and is younger than addedFor.
func (a *additions) known(path string, page int) (savedPage, bool) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return a.last, a.path == path && a.page == page && time.Since(a.made) < addedFor
}

// keep stores a page that was computed now.
func (a *additions) keep(path string, page int, made savedPage) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.path, a.page, a.last, a.made = path, page, made, time.Now()
}
