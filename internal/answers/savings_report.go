package answers

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/policy"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// SavingsEntry is one workload with its figures.
type SavingsEntry struct {
	View
	Figures SavingsFigures
}

// pricing returns the prices for the workload; the zero value if its settings are not known.
func (e SavingsEntry) pricing() policy.Pricing {
	if e.Settings == nil {
		return policy.Pricing{}
	}
	return e.Settings.Pricing
}

// SavingsReport is the answer of kubectl attune savings. Its JSON, with -o json:
//
//	{"workloads": [{
//	  "namespace": "shop", "kind": "Deployment", "workload": "web", "policy": "api", "mode": "Auto",
//	  "pods": 2, "replicas": 3,
//	  "saved": {"cpu": "250m", "memory": "0", "monthly": [{"currency": "$", "amount": "5.48"}]},
//	  "available": {"cpu": "620m", "memory": "0", "monthly": []},
//	  "notCounted": [{"container": "app", "resource": "memory", "reason": "AllowDecrease", "message": "…"}]
//	}],
//	 "namespaces": [{"namespace": "shop", "workloads": 1, "saved": {…}, "available": {…}, "notCounted": {…}}],
//	 "total": {"workloads": 1, "saved": {…}, "available": {…},
//	   "notCounted": {"skippedWorkloads": 0, "blockedWorkloads": 0, "blockedResources": 1},
//	   "hpa": [{"proof": "Keep", "workloads": 1, "saved": {…}, "available": {…}, "blocked": null}]}}
type SavingsReport struct {
	// Workloads by namespace, kind and name; never nil.
	Workloads []SavingsRow `json:"workloads"`
	// Namespaces by name; never nil.
	Namespaces []NamespaceSavings `json:"namespaces"`
	// Total of all workloads.
	Total SavingsSum `json:"total"`
}

// SavingsRow is the row of one workload.
type SavingsRow struct {
	Namespace string                `json:"namespace"`
	Kind      v1alpha1.WorkloadKind `json:"kind"`
	Workload  string                `json:"workload"`
	Policy    string                `json:"policy"`
	Mode      v1alpha1.UpdateType   `json:"mode"`
	Pods      int                   `json:"pods"`
	Replicas  int32                 `json:"replicas"`
	// Saved is null if the running pods cannot be read.
	Saved     *Saved `json:"saved"`
	Available Saved  `json:"available"`
	// NotCounted is never nil.
	NotCounted []NotCounted `json:"notCounted"`
	// HPA is as in SavingsSum.
	HPA []HPASavings `json:"hpa,omitempty"`
}

// NamespaceSavings is the sum of a namespace.
type NamespaceSavings struct {
	Namespace string `json:"namespace"`
	SavingsSum
}

// SavingsSum is the sum of several workloads.
type SavingsSum struct {
	Workloads  int           `json:"workloads"`
	Saved      *Saved        `json:"saved"`
	Available  Saved         `json:"available"`
	NotCounted NotCountedSum `json:"notCounted"`
	// HPA has the parts of requests on which HorizontalPodAutoscalers scale, by proof; blocked ones come last.
	HPA []HPASavings `json:"hpa,omitempty"`
}

// HPASavings are the savings of requests on which HorizontalPodAutoscalers scale, with one proof.
type HPASavings struct {
	// Proof is the setting that grants a change, such as Keep; None: the requests are blocked.
	Proof string `json:"proof"`
	// Workloads counts those with such a request.
	Workloads int `json:"workloads"`
	// Saved and Available are parts of the amounts of all requests. Available is null for blocked requests.
	Saved     *Saved `json:"saved"`
	Available *Saved `json:"available"`
	// Blocked is what the targets of blocked requests would save; null for the others. No other amount includes it.
	Blocked *Saved `json:"blocked"`
}

// NotCountedSum says how much a sum leaves out. A workload that is left out as a whole counts as one workload and no
// resources.
type NotCountedSum struct {
	SkippedWorkloads int `json:"skippedWorkloads"`
	BlockedWorkloads int `json:"blockedWorkloads"`
	BlockedResources int `json:"blockedResources"`
}

// Saved is an amount of both resources and its price for a month of 730 hours. Negative means an increase.
type Saved struct {
	// CPU and Memory are quantities.
	CPU    string `json:"cpu"`
	Memory string `json:"memory"`
	// Monthly has one amount per currency; it is empty if no price is configured.
	Monthly []Money `json:"monthly"`
}

// Money is an amount in one currency.
type Money struct {
	Currency string `json:"currency"`
	// Amount is a decimal number with two decimal places.
	Amount string `json:"amount"`
}

// tally adds up amounts. It counts money in hundredths, rounded per workload, so that a shown sum is the sum of the
// shown figures.
type tally struct {
	pair  SavedAmounts
	cents map[string]int64
}

// mostCents is the largest counted amount of a currency. Up to it a float64 holds every integer.
const mostCents = 1 << 53

// cents rounds an amount of money to hundredths and saturates at ±mostCents.
func cents(amount float64) int64 {
	return int64(max(-mostCents, min(mostCents, math.Round(amount*100))))
}

// add counts one amount at its price.
func (t *tally) add(pair SavedAmounts, pricing policy.Pricing) {
	t.pair = t.pair.Plus(pair)
	if amount, priced := MonthlyPrice(pair, pricing); priced {
		podview.SetIn(&t.cents, pricing.Currency, max(-mostCents, min(mostCents, t.cents[pricing.Currency]+cents(amount))))
	}
}

// saved formats the tally.
func (t *tally) saved() Saved {
	s := Saved{
		CPU:     FormatSaved(recommender.CPU, t.pair[recommender.CPU]),
		Memory:  FormatSaved(recommender.Memory, t.pair[recommender.Memory]),
		Monthly: []Money{},
	}
	for currency, cents := range t.cents {
		s.Monthly = append(s.Monthly, Money{Currency: currency, Amount: FormatMoney(float64(cents)/100, "")})
	}
	slices.SortFunc(s.Monthly, func(a, b Money) int { return cmp.Compare(a.Currency, b.Currency) })
	return s
}

// SavingsAdder adds up a SavingsSum. Its zero value is empty.
type SavingsAdder struct {
	workloads        int
	saved, available tally
	notCounted       NotCountedSum
	hpa              map[string]hpaTally
}

// hpaTally adds up HPASavings.
type hpaTally struct {
	workloads                 int
	saved, available, blocked tally
}

// Add counts one workload.
func (s *SavingsAdder) Add(e SavingsEntry) {
	s.workloads++
	s.saved.add(e.Figures.Saved, e.pricing())
	s.available.add(e.Figures.Available, e.pricing())
	skipped, whole := 0, 0
	for _, n := range e.Figures.NotCounted {
		switch {
		case n.Reason == ReasonSkipped:
			skipped = 1
		case n.Container == "":
			whole = 1
		default:
			s.notCounted.BlockedResources++
		}
	}
	s.notCounted.SkippedWorkloads += skipped
	s.notCounted.BlockedWorkloads += whole
	for _, of := range e.Figures.HPA {
		one := s.hpa[of.Proof]
		one.workloads++
		one.saved.add(of.Saved, e.pricing())
		one.available.add(of.Available, e.pricing())
		one.blocked.add(of.Blocked, e.pricing())
		podview.SetIn(&s.hpa, of.Proof, one)
	}
}

// Sum returns the sum. If the pods are not known, Saved is nil.
func (s SavingsAdder) Sum(podsKnown bool) SavingsSum {
	sum := SavingsSum{Workloads: s.workloads, Available: s.available.saved(), NotCounted: s.notCounted}
	if podsKnown {
		sum.Saved = new(s.saved.saved())
	}
	for _, proof := range slices.SortedFunc(maps.Keys(s.hpa), lastNone) {
		of := s.hpa[proof]
		row := HPASavings{Proof: proof, Workloads: of.workloads}
		if podsKnown {
			row.Saved = new(of.saved.saved())
		}
		if proof == autoscale.ProofNone {
			row.Blocked = new(of.blocked.saved())
		} else {
			row.Available = new(of.available.saved())
		}
		sum.HPA = append(sum.HPA, row)
	}
	return sum
}

// lastNone orders proofs by name, and blocked requests last.
func lastNone(a, b string) int {
	rank := map[string]int{autoscale.ProofNone: 1}
	return cmp.Or(cmp.Compare(rank[a], rank[b]), cmp.Compare(a, b))
}

// SavingsSums adds up one sum per namespace and a total. Its zero value is empty.
type SavingsSums struct {
	total SavingsAdder
	by    map[string]SavingsAdder
}

// Add counts one workload.
func (s *SavingsSums) Add(e SavingsEntry) {
	name := e.Recommendation.Namespace
	one := s.by[name]
	one.Add(e)
	podview.SetIn(&s.by, name, one)
	s.total.Add(e)
}

// Total is the sum of all workloads.
func (s *SavingsSums) Total(podsKnown bool) SavingsSum { return s.total.Sum(podsKnown) }

// Namespaces are the sums of the namespaces, by name; never nil.
func (s *SavingsSums) Namespaces(podsKnown bool) []NamespaceSavings {
	all := []NamespaceSavings{}
	for _, name := range slices.Sorted(maps.Keys(s.by)) {
		all = append(all, NamespaceSavings{Namespace: name, SavingsSum: s.by[name].Sum(podsKnown)})
	}
	return all
}

// NewSavingsReport returns the report. podsKnown is false if the running pods could not be read.
func NewSavingsReport(entries []SavingsEntry, podsKnown bool) SavingsReport {
	workloads, sums := []SavingsRow{}, SavingsSums{}
	for _, e := range entries {
		sums.Add(e)
		workloads = append(workloads, SavingsRowOf(e, podsKnown))
	}
	return SavingsReport{Workloads: workloads, Namespaces: sums.Namespaces(podsKnown), Total: sums.Total(podsKnown)}
}

// SavingsRowOf returns the row of one workload.
func SavingsRowOf(e SavingsEntry, podsKnown bool) SavingsRow {
	var one SavingsAdder
	one.Add(e)
	of, rec := one.Sum(podsKnown), e.Recommendation
	return SavingsRow{
		Namespace: rec.Namespace, Kind: rec.Spec.Workload.Kind, Workload: rec.Spec.Workload.Name, Policy: policy.NameOf(rec.Spec.Policy), Mode: rec.Spec.Mode,
		Pods: len(e.Pods), Replicas: e.Workload.Replicas,
		Saved: of.Saved, Available: of.Available,
		NotCounted: append([]NotCounted{}, e.Figures.NotCounted...), HPA: of.HPA,
	}
}

// NodeAutoscalerText says that the node autoscaler, not attune, removes nodes.
const NodeAutoscalerText = "Freed requests are room on nodes. The node autoscaler decides whether to remove a node."

// Sentences say how much is saved, how much is available, and how much is not counted; and of requests on which
// HorizontalPodAutoscalers scale, how much changes by which proof, and how much is blocked.
func (s SavingsSum) Sentences() []string {
	said := []string{"Saved already: " + sentence(s.Saved) + ".", "Available, not applied yet: " + sentence(&s.Available) + ".", s.NotCounted.Sentence()}
	for _, of := range s.HPA {
		said = append(said, of.Sentence())
	}
	return said
}

// Sentence says what the requests save, or would save.
func (h HPASavings) Sentence() string {
	workloads := "1 workload"
	if h.Workloads != 1 {
		workloads = strconv.Itoa(h.Workloads) + " workloads"
	}
	if h.Blocked != nil {
		return fmt.Sprintf("Blocked by HorizontalPodAutoscalers (%s), not counted: %s.", workloads, sentence(h.Blocked))
	}
	return fmt.Sprintf("Of these, granted below HorizontalPodAutoscalers by %s (%s): saved %s, available %s.",
		h.Proof, workloads, sentence(h.Saved), sentence(h.Available))
}

// sentence returns for example "250m of CPU and 1Gi of memory ($5.48 a month)".
func sentence(s *Saved) string {
	if s == nil {
		return "not known"
	}
	text := Readable(recommender.CPU, s.CPU) + " of CPU and " + Readable(recommender.Memory, s.Memory) + " of memory"
	if money := s.Money(); money != "" {
		text += " (" + money + " a month)"
	}
	return text
}

// Money joins the amounts of all currencies; empty if no price is configured.
func (s *Saved) Money() string {
	return strings.Join(podview.Map(s.Monthly, func(m Money) string { return m.Currency + m.Amount }), " + ")
}

// Sentence says how much is not counted.
func (n NotCountedSum) Sentence() string {
	var parts []string
	for _, part := range []struct {
		n         int
		one, more string
	}{
		{n.BlockedResources, "blocked resource", "blocked resources"},
		{n.BlockedWorkloads, "blocked or unknown workload", "blocked or unknown workloads"},
		{n.SkippedWorkloads, "skipped workload", "skipped workloads"},
	} {
		switch {
		case part.n == 1:
			parts = append(parts, "1 "+part.one)
		case part.n > 1:
			parts = append(parts, strconv.Itoa(part.n)+" "+part.more)
		}
	}
	if parts == nil {
		return "Everything is counted."
	}
	return "Not counted: " + strings.Join(parts, ", ") + "."
}

// NotCountedText lists each reason once, with its count if above 1, such as "AllowDecrease, 2 NoData".
func NotCountedText(all []NotCounted) string {
	var reasons []string
	times := map[string]int{}
	for _, n := range all {
		if times[n.Reason] == 0 {
			reasons = append(reasons, n.Reason)
		}
		times[n.Reason]++
	}
	for i, reason := range reasons {
		if n := times[reason]; n > 1 {
			reasons[i] = strconv.Itoa(n) + " " + reason
		}
	}
	return strings.Join(reasons, ", ")
}
