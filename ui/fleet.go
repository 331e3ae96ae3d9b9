package ui

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/answers"
	"attune.io/attune/internal/policy"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// fleet is the model of the first page.
type fleet struct {
	At time.Time
	// All counts everything, Rows one namespace each.
	All  counts
	Rows []namespaceRow
	Pages
	// Persons are the first policies that need a person; PersonsMore counts the others.
	Persons     []person
	PersonsMore int
}

// namespaceRow is one namespace of the fleet.
type namespaceRow struct {
	Name, Path string
	counts
}

// counts are of a namespace, or of all.
type counts struct {
	Policies, Workloads, Containers int
	// Held counts what status lists as held, Open the pods with an open resize, Persons the policies that need one.
	Held, Open, Persons int
	requested, saved    [2]recommender.Amount
	// shared is true where a cluster policy sizes some of the workloads: its status has one figure for all namespaces.
	shared bool
}

// Requested is what the targets request over the pods that the operator sees, Saved the savings of the policies' status.
func (c counts) Requested() [2]string { return pair(c.requested) }

// Saved is negative for growth; a dash: not known for a namespace alone.
func (c counts) Saved() [2]string {
	if c.shared {
		return [2]string{"–", "–"}
	}
	return pair(c.saved)
}

// pair writes amounts of CPU and memory for people.
func pair(amounts [2]recommender.Amount) (text [2]string) {
	for _, r := range recommender.Resources {
		text[r] = answers.Readable(r, answers.FormatSaved(r, amounts[r]))
	}
	return text
}

// add adds another's counts. What cluster policies save is counted with them.
func (c *counts) add(other counts) {
	c.Policies, c.Workloads, c.Containers = c.Policies+other.Policies, c.Workloads+other.Workloads, c.Containers+other.Containers
	c.Held, c.Open, c.Persons = c.Held+other.Held, c.Open+other.Open, c.Persons+other.Persons
	for _, r := range recommender.Resources {
		c.requested[r] = answers.AddSaved(c.requested[r], other.requested[r])
		c.saved[r] = answers.AddSaved(c.saved[r], other.saved[r])
	}
}

// policy counts a policy.
func (c *counts) policy(p *v1alpha1.AttunePolicy) {
	c.Policies++
	c.Held += len(p.Status.Conflicts)
	if s := p.Status.Savings; s != nil {
		c.saved[recommender.CPU] = answers.AddSaved(c.saved[recommender.CPU], recommender.Amount(s.CPURequestReduction.MilliValue()))
		c.saved[recommender.Memory] = answers.AddSaved(c.saved[recommender.Memory], recommender.Amount(s.MemoryRequestReduction.Value()))
	}
}

// workload counts a recommendation.
func (c *counts) workload(rec *v1alpha1.AttuneRecommendation) {
	c.Workloads++
	c.shared = c.shared || rec.Spec.Policy.Kind == v1alpha1.PolicyKindCluster
	c.Containers += len(rec.Spec.Containers)
	c.Held += len(answers.BlockedOfWorkload(rec))
	c.Open += len(rec.Status.Records)
	if rec.Status.Pods == nil {
		return
	}
	for i := range rec.Spec.Containers {
		target := podview.FromResources(rec.Spec.Containers[i].Target)
		for _, r := range recommender.Resources {
			c.requested[r] = answers.AddSaved(c.requested[r], answers.TimesReplicas(target[r].Request, rec.Status.Pods.Total))
		}
	}
}

// person is a policy that needs one, and why.
type person struct{ Namespace, NamespacePath, Policy, Reason, Message string }

// personFor returns why a policy needs a person; false: it needs none.
func personFor(p *v1alpha1.AttunePolicy, now time.Time) (person, bool) {
	ready := answers.ReadinessOf(p, now)
	if !ready.NeedsPerson {
		return person{}, false
	}
	out := person{p.Namespace, namespacePath(p.Namespace), p.Name, ready.Reason, ready.Message}
	if policy.OfCluster(p) {
		out.Namespace, out.NamespacePath = "all namespaces", Path
	}
	// Of a policy that is ready, the other condition is what a person looks after.
	if c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionDegraded); c != nil && ready.Ready == "True" {
		out.Reason, out.Message = c.Reason, c.Message
	}
	return out, true
}

// fleetOf counts a cluster by namespace. page is the number of the page, from 1.
func fleetOf(c Cluster, page int) fleet {
	by := map[string]*counts{}
	of := func(namespace string) *counts {
		if by[namespace] == nil {
			by[namespace] = &counts{}
		}
		return by[namespace]
	}
	out := fleet{At: c.At}
	for i := range c.Policies {
		p, in := &c.Policies[i], &out.All
		if !policy.OfCluster(p) { // a cluster policy is in no namespace
			in = of(p.Namespace)
		}
		in.policy(p)
		if needs, ok := personFor(p, c.At); ok {
			in.Persons++
			out.Persons = append(out.Persons, needs)
		}
	}
	for i := range c.Recommendations {
		of(c.Recommendations[i].Namespace).workload(&c.Recommendations[i])
	}
	names := slices.Sorted(maps.Keys(by))
	for _, n := range by {
		out.All.add(*n)
	}
	out.Pages = pagesOf(Path, page, len(names))
	for _, name := range names[out.first:out.last] {
		out.Rows = append(out.Rows, namespaceRow{name, namespacePath(name), *by[name]})
	}
	slices.SortFunc(out.Persons, func(a, b person) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Policy, b.Policy))
	})
	if more := len(out.Persons) - mostPersons; more > 0 {
		out.Persons, out.PersonsMore = out.Persons[:mostPersons], more
	}
	return out
}
