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
	"attune.io/attune/recommender"
)

// namespace is the model of the page of one namespace.
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
	// More is how many containers are not shown, Held the reasons of what is left as it is.
	More int
	Held string
	// Problem is why nothing can be said of the containers.
	Problem string
}

// line is one container of a row. CPU and Memory are such as "500m → 200m".
type line struct{ Name, CPU, Memory, Confidence string }

// namespaceOf makes the model. explain is asked about the workloads of the page alone.
func namespaceOf(c Cluster, name string, page int, explain func(*v1alpha1.AttuneRecommendation) Explained) namespace {
	out := namespace{At: c.At, Name: name}
	policies := make([]*v1alpha1.AttunePolicy, len(c.Policies))
	for i := range c.Policies {
		policies[i] = &c.Policies[i]
		out.All.policy(policies[i])
	}
	slices.SortFunc(policies, func(a, b *v1alpha1.AttunePolicy) int { return cmp.Compare(a.Name, b.Name) })
	for _, p := range policies[:min(len(policies), mostRows)] {
		out.Policies = append(out.Policies, policyRowOf(p, c.At))
	}
	recs := byName(c.Recommendations)
	for _, rec := range recs {
		out.All.workload(rec)
	}
	out.Pages = pagesOf(namespacePath(name), page, len(recs))
	for _, rec := range recs[out.first:out.last] {
		out.Rows = append(out.Rows, workloadRowOf(rec, explain(rec)))
	}
	return out
}

func policyRowOf(p *v1alpha1.AttunePolicy, now time.Time) policyRow {
	row := policyRow{Name: p.Name, Mode: string(p.Status.Mode), Readiness: answers.ReadinessOf(p, now)}
	if needs, ok := personFor(p, now); ok {
		row.Reason, row.Message = needs.Reason, needs.Message
	}
	if p.Status.Workloads != nil {
		row.Workloads = p.Status.Workloads.Discovered
	}
	return row
}

// rowOf is what a row has of the recommendation alone.
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
	row.Held = strings.Join(reasons, ", ")
	return row
}

// movement is what a container has and what it is to have. Without a target it is what it has.
func movement(r recommender.Resource, current, target *string) string {
	now := answers.OrNone(r, current)
	if target == nil {
		return now + ", no recommendation"
	}
	return now + " → " + answers.OrNone(r, target)
}

// mostQuery is how many bytes of a search are looked for.
const mostQuery = 200

// searchPage is the model of the page of a search.
type searchPage struct {
	At    time.Time
	Query string
	// Looked is false where nothing was looked for yet.
	Looked bool
	Rows   []workloadRow
	Pages
}

// searchOf finds the workloads whose NAMESPACE/KIND/NAME has a text in it, in upper or lower case.
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
	for _, rec := range found[out.first:out.last] {
		out.Rows = append(out.Rows, rowOf(rec))
	}
	return out
}
