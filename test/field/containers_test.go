package field

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/constraint"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/tuning/targets"
	"attune.io/attune/webhook/pod"
)

// Admission leaves each container that is off as it is, byte by byte, and each resource that is not controlled: whatever is
// known of them, and whatever becomes of the other containers. The class of the pod stays.
func TestAdmissionLeavesContainersThatAreNotSized(t *testing.T) {
	rounds := 2_000
	if n, err := strconv.Atoi(os.Getenv("ATTUNE_DRAWS")); err == nil { // make test-long
		rounds = n
	}
	d, changed := rand.New(rand.NewPCG(5, 6)), 0
	for i := range rounds {
		template := drawPod(d)
		view := targets.View{
			Workload: workload.Workload{Identity: workload.Identity{Kind: v1alpha1.KindDeployment, Namespace: "shop", Name: "web"}, Template: template, Replicas: 3},
			Now:      now, Blocked: func(string, recommender.Resource) *recommender.Hold { return nil },
			History: targets.History{Profiles: map[string]recommender.Profile{}},
		}
		var entries string
		for _, name := range []string{"app", "side", "sidecar", `"*"`} {
			if c := name; c != `"*"` {
				view.History.Profiles[c] = profile(float64(1+d.IntN(2000))/1000, float64(1+d.IntN(4000))*(1<<20))
				if d.IntN(3) == 0 {
					view.Status.Floors = append(view.Status.Floors, v1alpha1.Floor{Container: c, Resource: "memory", Amount: resource.MustParse("3Gi"), Reason: "oomkill", LearnedAt: metav1.NewTime(now)})
				}
			}
			if d.IntN(2) == 0 {
				entries += fmt.Sprintf("- {containerName: %s, mode: %q, controlledResources: %s, controlledValues: %s, cpu: {maxAllowed: 1500m}, memory: {allowDecrease: true}}\n", name,
					[]string{"Auto", "Off"}[d.IntN(2)], []string{"[cpu]", "[memory]", "[cpu, memory]"}[d.IntN(3)], []string{"RequestsOnly", "RequestsAndLimits"}[d.IntN(2)])
			}
		}
		p := &v1alpha1.AttunePolicy{}
		require.NoError(t, yaml.UnmarshalStrict([]byte("targetRef: {kind: Deployment}\nupdateStrategy: {type: "+[]string{"Initial", "Auto"}[d.IntN(2)]+"}\ncontainerPolicies:\n"+entries), &p.Spec))
		settings, err := policy.Resolve(nil, nil, p)
		require.NoError(t, err)
		view.Policy, view.Settings = p, settings
		rec := &v1alpha1.AttuneRecommendation{Spec: targets.Desired(view), Status: view.Status}
		rec.Name, rec.Namespace = "deployment-web", "shop"

		text, err := json.Marshal(template)
		require.NoError(t, err)
		created, out := &pod.Pod{}, &corev1.PodTemplateSpec{}
		require.NoError(t, json.Unmarshal(text, created))
		decision := pod.SeedPod(created, pod.Read(rec), &pod.Namespace{Bounds: constraint.BoundsOf(nil)}, now)
		if decision.Patch != nil {
			changed++
			patch, err := jsonpatch.DecodePatch(decision.Patch)
			require.NoError(t, err)
			text, err = patch.Apply(text)
			require.NoError(t, err)
		}
		require.NoError(t, json.Unmarshal(text, out))
		if class := podview.ClassOf(&corev1.Pod{Spec: template.Spec}); class != corev1.PodQOSBestEffort { // its containers get requests
			assert.Equal(t, class, podview.ClassOf(&corev1.Pod{Spec: out.Spec}))
		}
		before, after := podview.ResizableIn(&template.Spec), podview.ResizableIn(&out.Spec)
		for j, c := range after {
			what := fmt.Sprintf("round %d: container %s of\n%s", i, c.Name, entries)
			if settings.Resize.Excludes(c.Name) {
				was, err := json.Marshal(before[j])
				require.NoError(t, err)
				is, err := json.Marshal(c)
				require.NoError(t, err)
				require.Equal(t, string(was), string(is), what)
			}
			was, is := podview.ReadSpec(before[j].Resources), podview.ReadSpec(c.Resources)
			for _, r := range recommender.Resources {
				if settings.Resize.Of(c.Name).Uncontrolled[r] != "" {
					require.Equal(t, was[r], is[r], what)
				}
			}
		}
	}
	assert.Greater(t, changed, rounds/4)
}

// profile is a week of constant usage.
func profile(cores, bytes float64) recommender.Profile {
	var steps []recommender.StepUsage
	for at := now.Add(-7 * 24 * time.Hour); !at.After(now); at = at.Add(time.Hour) {
		steps = append(steps, recommender.StepUsage{At: at, CPUCores: cores, MemoryBytes: bytes})
	}
	return recommender.NewProfile(steps, time.Hour)
}

// drawPod is a template of two containers and a sidecar: Guaranteed, Burstable or BestEffort.
func drawPod(d *rand.Rand) *corev1.PodTemplateSpec {
	always, class := corev1.ContainerRestartPolicyAlways, d.IntN(4)
	of := func(name string) corev1.Container {
		requests := corev1.ResourceList{"cpu": *resource.NewMilliQuantity(int64(10+d.IntN(2000)), resource.DecimalSI), "memory": *resource.NewQuantity(int64(20+d.IntN(4000))<<20, resource.BinarySI)}
		limits := corev1.ResourceList{}
		for resource, q := range requests {
			switch {
			case class == 1:
				limits[resource] = q.DeepCopy()
			case d.IntN(2) == 0:
				limit := q.DeepCopy()
				limit.Mul(int64(1 + d.IntN(3)))
				limits[resource] = limit
			}
		}
		if class == 0 {
			requests, limits = nil, nil
		}
		return corev1.Container{Name: name, Image: "app", Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}}
	}
	out := &corev1.PodTemplateSpec{}
	out.Spec.Containers = []corev1.Container{of("app"), of("side")}
	sidecar := of("sidecar")
	sidecar.RestartPolicy = &always
	out.Spec.InitContainers = []corev1.Container{sidecar}
	return out
}
