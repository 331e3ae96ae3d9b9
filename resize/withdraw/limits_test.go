package withdraw

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/resize/resizetest"
)

// An admission policy that requires CPU limits rejects pods without one, also if no request changes.
func TestARemovedCPULimitMayBeRejected(t *testing.T) {
	request := resource.MustParse("480m")
	template := func(limit int64) *corev1.PodTemplateSpec {
		size := resizetest.Size(480, 0, 512, 1024)
		size[0].Limit += podview.AmountOf(0, *resource.NewMilliQuantity(limit, resource.DecimalSI))
		return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Resources: podview.ToRequirements(size)}}}}
	}
	seed := func(rule *v1alpha1.CPULimitRule) *v1alpha1.Seed {
		return &v1alpha1.Seed{Containers: []v1alpha1.ContainerSeed{{Name: "app", CPURequest: &request, CPULimitRule: rule}}}
	}
	assert.Equal(t, SeedEffect{}, EffectOf(seed(nil), template(960)))
	removed := SeedEffect{Lowers: true, Removes: true}
	assert.Equal(t, removed, EffectOf(seed(&v1alpha1.CPULimitRule{Remove: true}), template(960)))
	assert.Equal(t, SeedEffect{Raises: true, Lowers: true}, EffectOf(seed(&v1alpha1.CPULimitRule{RatioThousandths: 9000}), template(960)))
	assert.Equal(t, SeedEffect{}, EffectOf(seed(&v1alpha1.CPULimitRule{Remove: true}), template(0)))
	for name, message := range limitsNeeded {
		assert.True(t, MayReject(message, removed), name)
	}
	const quota = `pods "web-1" is forbidden: failed quota: compute: must specify `
	assert.False(t, MayReject(quota+"limits.cpu for: app", SeedEffect{Raises: true, Lowers: true}), "the template has none either")
	assert.False(t, MayReject(quota+"requests.memory for: app", removed), "attune removes no request")
}

// limitsNeeded are the API server's answers to pods without a CPU limit.
var limitsNeeded = map[string]string{
	"a quota":             `Error creating: pods "web-5d9c-x2x4k" is forbidden: failed quota: compute: must specify limits.cpu for: app`,
	"several amounts":     `Error creating: pods "web-5d9c-x2x4k" is forbidden: failed quota: compute: must specify limits.cpu for: app; limits.memory for: side`,
	"an older API server": `Error creating: pods "web-5d9c-x2x4k" is forbidden: failed quota: compute: must specify limits.cpu,limits.memory`,
	"a maximum":           `Error creating: pods "web-5d9c-x2x4k" is forbidden: maximum cpu usage per Container is 1.  No limit is specified`,
	"a maximum of pods":   `Error creating: pods "web-5d9c-x2x4k" is forbidden: maximum cpu usage per Pod is 1.  No limit is specified`,
	"a ratio":             `Error creating: pods "web-5d9c-x2x4k" is forbidden: cpu max limit to request ratio per Container is 4, but no limit is specified or limit is 0`,
	"a policy of the API server": `Error creating: pods "web-5d9c-x2x4k" is forbidden: ValidatingAdmissionPolicy 'limits' with binding 'limits' denied request: ` +
		`all containers must have CPU limits`,
	"Kyverno":    `Error creating: admission webhook "validate.kyverno.svc-fail" denied the request: validation error: CPU limits are required`,
	"Gatekeeper": `Error creating: admission webhook "validation.gatekeeper.sh" denied the request: [container-must-have-limits] container <app> has no cpu limit`,
}

// The API server rejects the pods of a template without any CPU limit too: that is no reason to try again for ever.
func TestAQuotaThatTheTemplateBreaksTooEndsAWithdrawal(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	out := Judge(Input{
		Now:      at.Add(time.Minute),
		Status:   &v1alpha1.AdmissionWithdrawn{Since: at, Until: metav1.NewTime(at.Add(Lasts)), Reason: v1alpha1.ReasonAdmissionRejected},
		Rejected: &Rejection{At: at.Add(time.Minute), Lasts: true, Message: limitsNeeded["a quota"]},
		Seeded:   func(*corev1.Pod) *v1alpha1.Seeded { return nil },
		Unread:   func(string) bool { return false },
	})
	assert.True(t, out.Status.RejectedWithout)
}
