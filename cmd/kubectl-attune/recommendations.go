package main

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/cmd/kubectl-attune/output"
	"attune.io/attune/internal/answers"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// newRecommendations returns the command recommendations. It needs the right to list recommendations. Workloads and
// policies are optional. Without the right to list a kind, its current sizes are missing. Without the right to read
// policies, the reasons that block the next resize are missing.
func newRecommendations(env *environment) *cobra.Command {
	return env.watched(&cobra.Command{
		Use:     "recommendations [KIND/NAME...]",
		Aliases: []string{"recommendation", "recs"},
		Short:   "Compare the resources of each container with the recommendation",
		Long: "Compare the resources in each container's template with the recommendation.\n\n" +
			"Savings are what the targets would save over all replicas, including blocked resources; negative savings are\n" +
			"increases. A dash means that a value is not set or not known. To fail a CI job on differences, use diff.\n" +
			"-o krr prints the JSON of robusta-dev/krr (krr simple -f json), for scripts that read it.",
		Example:           "  kubectl attune recommendations\n  kubectl attune recommendations statefulset/db -o wide",
		ValidArgsFunction: env.completesWorkloads(0),
		RunE:              func(cmd *cobra.Command, args []string) error { return runRecommendations(cmd.Context(), env, args) },
	})
}

// runRecommendations prints one row for each container of the selected workloads.
func runRecommendations(ctx context.Context, env *environment, args []string) error {
	r, all, err := env.explainSelected(ctx, args)
	if err != nil {
		return err
	}
	if env.format == formatKRR {
		return r.printKRR(ctx, all)
	}
	answer := recommendationReport{Recommendations: []recommendation{}}
	for _, one := range all {
		answer.add(one)
	}
	if len(answer.Recommendations) == 0 {
		env.printNote("no recommendations found; kubectl attune status shows the policies")
	}
	return env.print(answer)
}

// recommendationReport is the answer of recommendations. Its JSON, with -o json (quantities are texts, or null if a
// value is not known):
//
//	{"recommendations": [{
//	  "namespace": "shop", "kind": "Deployment", "workload": "web",
//	  "container": "app", "policy": "web", "mode": "Auto", "replicas": 3,
//	  "current": {"cpuRequest": "500m", "memoryRequest": "1Gi"},
//	  "target": {"cpuRequest": "200m", "memoryRequest": "600Mi"},
//	  "confidence": 0.9, "dataPoints": 2016,
//	  "savings": {"cpu": "900m", "memory": "1272Mi"},
//	  "holds": []
//	}]}
type recommendationReport struct {
	// Recommendations are sorted by namespace, kind, workload and container; never nil.
	Recommendations []recommendation `json:"recommendations"`
}

// recommendation is the row of one container.
type recommendation struct {
	// Namespace, Kind and Workload identify the workload.
	Namespace string `json:"namespace"`
	// Kind is a kind such as Deployment.
	Kind v1alpha1.WorkloadKind `json:"kind"`
	// Workload is its name.
	Workload string `json:"workload"`
	// Container is its name in the pod template.
	Container string `json:"container"`
	// Policy selects the workload, in this Mode.
	Policy string `json:"policy"`
	// Mode is the mode of the stored recommendation.
	Mode v1alpha1.UpdateType `json:"mode"`
	// Replicas is spec.replicas; 0 if the workload does not exist or cannot be read.
	Replicas int32 `json:"replicas"`
	// Current has the requests and limits of the template.
	Current answers.Amounts `json:"current"`
	// Target is the recommended size.
	Target answers.Amounts `json:"target"`
	// Confidence is from 0 to 1.
	Confidence float64 `json:"confidence"`
	// DataPoints counts the samples of the history that have data.
	DataPoints int `json:"dataPoints"`
	// Savings are the saved requests if the target were applied to all replicas. They are negative if the target is
	// higher, and nil if template or target has no request.
	Savings answers.Quantities `json:"savings"`
	// Holds are the reasons that block the resize of a resource.
	Holds []answers.Hold `json:"holds"`
}

// add appends the rows of one workload. The explanation and the recommendation have the same containers in the same
// order (answers.Explain).
func (r *recommendationReport) add(from explained) {
	// A workload that cannot be read has no template. Current is then empty, and Savings are nil.
	rec, template := from.Recommendation, podview.TemplateSizes(from.Workload.Template)
	for i, c := range from.answer.Containers {
		target := podview.FromResources(rec.Spec.Containers[i].Target)
		r.Recommendations = append(r.Recommendations, recommendation{
			Namespace:  rec.Namespace,
			Kind:       rec.Spec.Workload.Kind,
			Workload:   rec.Spec.Workload.Name,
			Container:  c.Name,
			Policy:     policy.NameOf(rec.Spec.Policy),
			Mode:       rec.Spec.Mode,
			Replicas:   from.Workload.Replicas,
			Current:    answers.AmountsOf(template[c.Name]),
			Target:     c.Target,
			Confidence: c.Confidence,
			DataPoints: c.DataPoints,
			Savings:    savedBy(template[c.Name], target, from.Workload.Replicas),
			Holds:      c.Holds,
		})
	}
}

// savedBy compares two sizes for both resources, by the formula of the policy's status.
func savedBy(current, target recommender.Size, replicas int32) (all answers.Quantities) {
	for r, to := range [2]**string{recommender.CPU: &all.CPU, recommender.Memory: &all.Memory} {
		if saved, known := answers.SavedOf(current[r].Request, target[r].Request, replicas); known {
			*to = new(answers.FormatSaved(recommender.Resource(r), saved))
		}
	}
	return all
}

// Human implements document. It writes one table, and nothing without rows.
func (r recommendationReport) Human(wide bool) (string, error) {
	if len(r.Recommendations) == 0 {
		return "", nil
	}
	t := answers.Table{
		Header: []string{
			"NAMESPACE", "WORKLOAD", "CONTAINER", "CPU", "CPU TARGET", "MEMORY", "MEMORY TARGET", "BLOCKED", "CONFIDENCE", "CPU SAVINGS", "MEMORY SAVINGS",
			"CPU LIMIT", "CPU LIMIT TARGET", "MEMORY LIMIT", "MEMORY LIMIT TARGET", "DATA POINTS", "REPLICAS", "MODE", "POLICY",
		},
	}
	t.OnlyWide = t.Header[8:] // with them a row is wider than most terminals
	cpu, memory := recommender.CPU, recommender.Memory
	for _, rec := range r.Recommendations {
		t.Add(
			rec.Namespace, string(rec.Kind)+"/"+rec.Workload, rec.Container,
			answers.Cell(cpu, rec.Current.CPURequest), answers.Cell(cpu, rec.Target.CPURequest),
			answers.Cell(memory, rec.Current.MemoryRequest), answers.Cell(memory, rec.Target.MemoryRequest), blockedWords(rec.Holds),
			strconv.FormatFloat(rec.Confidence, 'f', 2, 64), answers.Cell(cpu, rec.Savings.CPU), answers.Cell(memory, rec.Savings.Memory),
			answers.Cell(cpu, rec.Current.CPULimit), answers.Cell(cpu, rec.Target.CPULimit),
			answers.Cell(memory, rec.Current.MemoryLimit), answers.Cell(memory, rec.Target.MemoryLimit),
			strconv.Itoa(rec.DataPoints), strconv.Itoa(int(rec.Replicas)), string(rec.Mode), rec.Policy)
	}
	return output.Text(t, wide), nil
}

// blockedWords joins the holds for one cell, such as memory:AllowDecrease.
func blockedWords(holds []answers.Hold) string {
	return strings.Join(podview.Map(holds, func(h answers.Hold) string { return h.Resource + ":" + h.Reason }), ",")
}

// printKRR prints recommendations in KRR's format. It omits workloads that no longer exist, because KRR does not list
// them. If no workload of a kind was read, they may exist, but their requests are not known.
func (r reach) printKRR(ctx context.Context, all []explained) error {
	// If a workload of a kind was read, the user may list the kind, so its missing workloads do not exist.
	read := map[v1alpha1.WorkloadKind]bool{}
	for _, from := range all {
		read[from.Recommendation.Spec.Workload.Kind] = read[from.Recommendation.Spec.Workload.Kind] || from.Workload.Template != nil
	}
	pods, _, err := r.pods(ctx, func(pod *corev1.Pod) bool { return !resize.Finished(pod) }, "pods are not listed")
	if err != nil {
		return err
	}
	var containers []output.KRRContainer
	for _, from := range all {
		rec, template := from.Recommendation, podview.TemplateSizes(from.Workload.Template)
		id, whole := workload.IdentityOf(rec), output.KRRBlocked(rec, from.Workload, from.Settings)
		if from.Workload.Template == nil && read[id.Kind] {
			continue
		}
		names := podview.Map(pods[id], func(pod *corev1.Pod) string { return pod.Name })
		slices.Sort(names)
		for i, c := range from.answer.Containers {
			container := output.KRRContainer{
				Namespace: id.Namespace, Kind: string(id.Kind), Workload: id.Name, Name: c.Name, Pods: names,
				Labels: from.Workload.Labels, Annotations: from.Workload.Annotations,
				Target: podview.FromResources(rec.Spec.Containers[i].Target), Holds: append(whole[:len(whole):len(whole)], c.Holds...),
			}
			if from.Workload.Template != nil {
				container.Current = new(template[c.Name])
			}
			containers = append(containers, container)
		}
	}
	return r.env.print(output.NewKRR(r.env.cluster.Context(), containers))
}
