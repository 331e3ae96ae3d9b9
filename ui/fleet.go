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
	// All sums everything. Rows has one namespace each.
	All  counts
	Rows []namespaceRow
	Pages
	// Persons lists the first mostPersons policies that need attention. PersonsMore counts the others.
	Persons     []person
	PersonsMore int
}

// namespaceRow is one namespace of the fleet.
type namespaceRow struct {
	Name, Path string
	counts
}

// counts holds the figures of one namespace, or of all namespaces.
type counts struct {
	Policies, Workloads, Containers int
	// Blocked counts the entries that status lists as blocked, Open the in-flight resizes, Persons the policies that
	// need attention.
	Blocked, Open, Persons int
	requested, saved       answers.SavedAmounts
	// shared is true if a cluster policy selects any of the workloads. Its status has one savings figure for all
	// namespaces.
	shared bool
}

// Requested returns the summed requests of the targets, over the pods that the operator sees.
func (c counts) Requested() [2]string { return pair(c.requested) }

// Saved returns the savings in the status of the policies. A negative amount is an increase. It returns dashes if
// the figure of this namespace alone is not known.
func (c counts) Saved() [2]string {
	if c.shared {
		return [2]string{"–", "–"}
	}
	return pair(c.saved)
}

// pair formats amounts of CPU and memory.
func pair(amounts [2]recommender.Amount) (text [2]string) {
	for _, r := range recommender.Resources {
		text[r] = answers.Readable(r, answers.FormatSaved(r, amounts[r]))
	}
	return text
}

// add adds other to c. The savings of cluster policies are included.
func (c *counts) add(other counts) {
	c.Policies, c.Workloads, c.Containers = c.Policies+other.Policies, c.Workloads+other.Workloads, c.Containers+other.Containers
	c.Blocked, c.Open, c.Persons = c.Blocked+other.Blocked, c.Open+other.Open, c.Persons+other.Persons
	c.requested, c.saved = c.requested.Plus(other.requested), c.saved.Plus(other.saved)
}

// policy adds the figures of a policy.
func (c *counts) policy(p *v1alpha1.AttunePolicy) {
	c.Policies++
	c.Blocked += len(p.Status.Conflicts)
	if s := p.Status.Savings; s != nil {
		c.saved[recommender.CPU] = answers.AddSaved(c.saved[recommender.CPU], recommender.Amount(s.CPURequestReduction.MilliValue()))
		c.saved[recommender.Memory] = answers.AddSaved(c.saved[recommender.Memory], recommender.Amount(s.MemoryRequestReduction.Value()))
	}
}

// workload adds the figures of a recommendation.
func (c *counts) workload(rec *v1alpha1.AttuneRecommendation) {
	c.Workloads++
	c.shared = c.shared || rec.Spec.Policy.Kind == v1alpha1.PolicyKindCluster
	c.Containers += len(rec.Spec.Containers)
	c.Blocked += len(answers.BlockedOfWorkload(rec))
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

// person is a policy that needs attention, and the reason.
type person struct{ Namespace, NamespacePath, Policy, Reason, Message string }

// personFor returns the policy and the reason why it needs attention; false: it needs none.
func personFor(p *v1alpha1.AttunePolicy, now time.Time) (person, bool) {
	ready := answers.ReadinessOf(p, now)
	if !ready.NeedsPerson {
		return person{}, false
	}
	out := person{p.Namespace, namespacePath(p.Namespace), p.Name, ready.Reason, ready.Message}
	if policy.OfCluster(p) {
		out.Namespace, out.NamespacePath = "all namespaces", Path
	}
	// If the policy is ready, the Degraded condition is the reason.
	if c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionDegraded); c != nil && ready.Ready == "True" {
		out.Reason, out.Message = c.Reason, c.Message
	}
	return out, true
}

// fleetOf sums a cluster by namespace. page is the page number, from 1.
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
		if !policy.OfCluster(p) { // a cluster policy has no namespace
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
	out.Rows = podview.Map(names[out.first:out.last], func(name string) namespaceRow { return namespaceRow{name, namespacePath(name), *by[name]} })
	slices.SortFunc(out.Persons, func(a, b person) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Policy, b.Policy))
	})
	if more := len(out.Persons) - mostPersons; more > 0 {
		out.Persons, out.PersonsMore = out.Persons[:mostPersons], more
	}
	return out
}
