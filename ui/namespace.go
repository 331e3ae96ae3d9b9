package ui

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/answers"
	"attune.io/attune/internal/clip"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// namespace is the model of a namespace's page.
type namespace struct {
	At       time.Time
	Name     string
	All      counts
	Policies []policyRow
	Rows     []workloadRow
	Pages
}

// policyRow is one policy.
type policyRow struct {
	Name, Mode string
	answers.Readiness
	Workloads int32
}

// workloadRow is one workload.
type workloadRow struct {
	Name, Path, Namespace, NamespacePath, Policy, Mode, Phase string
	Containers                                                []line
	// More counts the containers that are not shown. Blocked lists the reasons of blocked resources.
	More    int
	Blocked string
	// Problem says why the containers are not explained.
	Problem string
}

// line is one container of a row. CPU and Memory look like "500m → 200m".
type line struct{ Name, CPU, Memory, Confidence string }

// namespaceOf builds the model. It calls explain only for the workloads on this page.
func namespaceOf(c Cluster, name string, page int, explain func(*v1alpha1.AttuneRecommendation) Explained) namespace {
	out := namespace{At: c.At, Name: name}
	policies := podview.Pointers(c.Policies)
	for _, p := range policies {
		out.All.policy(p)
	}
	slices.SortFunc(policies, func(a, b *v1alpha1.AttunePolicy) int { return cmp.Compare(a.Name, b.Name) })
	out.Policies = podview.Map(policies[:min(len(policies), mostRows)], func(p *v1alpha1.AttunePolicy) policyRow { return policyRowOf(p, c.At) })
	recs := byName(c.Recommendations)
	for _, rec := range recs {
		out.All.workload(rec)
	}
	out.Pages = pagesOf(namespacePath(name), page, len(recs))
	out.Rows = podview.Map(recs[out.first:out.last], func(rec *v1alpha1.AttuneRecommendation) workloadRow { return workloadRowOf(rec, explain(rec)) })
	return out
}

func policyRowOf(p *v1alpha1.AttunePolicy, now time.Time) policyRow {
	row := policyRow{Name: p.Name, Mode: answers.ModeWith(string(p.Status.Mode), string(p.Status.Admission)), Readiness: answers.ReadinessOf(p, now)}
	if needs, ok := personFor(p, now); ok {
		row.Reason, row.Message = needs.Reason, needs.Message
	}
	if p.Status.Workloads != nil {
		row.Workloads = p.Status.Workloads.Discovered
	}
	return row
}

// rowOf fills the fields that come from the recommendation itself.
func rowOf(rec *v1alpha1.AttuneRecommendation) workloadRow {
	id := workload.IdentityOf(rec)
	return workloadRow{
		Name: id.String(), Path: pathOf(id), Namespace: id.Namespace, NamespacePath: namespacePath(id.Namespace),
		Policy: policy.NameOf(rec.Spec.Policy), Mode: string(rec.Spec.Mode), Phase: string(rec.Status.Phase),
	}
}

func workloadRowOf(rec *v1alpha1.AttuneRecommendation, explained Explained) workloadRow {
	row := rowOf(rec)
	row.Problem, row.More = explained.Problem, max(0, len(explained.Containers)-mostLines)
	for _, c := range explained.Containers[:min(len(explained.Containers), mostLines)] {
		row.Containers = append(row.Containers, line{
			Name: c.Name, Confidence: fmt.Sprintf("%.2f", c.Confidence),
			CPU:    movement(recommender.CPU, c.Current.CPURequest, c.Target.CPURequest),
			Memory: movement(recommender.Memory, c.Current.MemoryRequest, c.Target.MemoryRequest),
		})
	}
	var reasons []string
	for _, thing := range answers.BlockedOfWorkload(rec) {
		reason := thing.Reason
		if thing.Resource != "" {
			reason = thing.Resource + ":" + reason
		}
		if !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
	}
	row.Blocked = strings.Join(reasons, ", ")
	return row
}

// movement formats the current and the target amount. Without a target it says so.
func movement(r recommender.Resource, current, target *string) string {
	now := answers.OrNone(r, current)
	if target == nil {
		return now + ", no recommendation"
	}
	return now + " → " + answers.OrNone(r, target)
}

// mostQuery is the maximum length of a search text in bytes. Longer texts are cut.
const mostQuery = 200

// searchPage is the model of the search page.
type searchPage struct {
	At    time.Time
	Query string
	// Looked is false if the search text is empty.
	Looked bool
	Rows   []workloadRow
	Pages
}

// searchOf finds the workloads whose NAMESPACE/KIND/NAME contains query. Case does not matter.
func searchOf(c Cluster, query string, page int) searchPage {
	query = clip.Text(strings.TrimSpace(query), mostQuery)
	out := searchPage{At: c.At, Query: query, Looked: query != ""}
	if !out.Looked {
		return out
	}
	var found []*v1alpha1.AttuneRecommendation
	for _, rec := range byName(c.Recommendations) {
		id := workload.IdentityOf(rec)
		if strings.Contains(strings.ToLower(id.Namespace+"/"+id.String()), strings.ToLower(query)) {
			found = append(found, rec)
		}
	}
	out.Pages = pagesOf(Path+"search?q="+url.QueryEscape(query), page, len(found))
	out.Rows = podview.Map(found[out.first:out.last], rowOf)
	return out
}
