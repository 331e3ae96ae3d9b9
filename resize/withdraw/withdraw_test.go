package withdraw

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestWithdrawalLastsUntilItsEndAndWhileAPodIsTried(t *testing.T) {
	at := func(until time.Duration, trial string, without bool) *v1alpha1.AdmissionWithdrawn {
		return &v1alpha1.AdmissionWithdrawn{Until: metav1.NewTime(now.Add(until)), TrialPod: trial, RejectedWithout: without}
	}
	assert.False(t, Stands(nil, now))
	assert.True(t, Stands(at(time.Second, "", false), now))
	assert.False(t, Stands(at(0, "", false), now))
	assert.True(t, Stands(at(0, "web-1", false), now))
	assert.True(t, Stands(at(0, "", true), now))
}

func TestWordsAreCleanAndBounded(t *testing.T) {
	assert.Equal(t, "a b", Words(" a\nb\x00 "))
	for _, text := range []string{strings.Repeat("x", 5000), strings.Repeat("ä", 5000), strings.Repeat("\xff", 5000), ""} {
		words := Words(text)
		assert.LessOrEqual(t, len(words), 256)
		assert.NotContains(t, words, "�")
	}
}

// Requests exceed a quota; the other amounts that it counts do not matter.
func TestQuotaCountsForRaisedResources(t *testing.T) {
	raises := SeedEffect{Raises: true}
	assert.True(t, MayReject(`exceeded quota: q, requested: limits.memory=2Gi, used: limits.memory=0, limited: limits.memory=1Gi`, raises))
	assert.False(t, MayReject(`exceeded quota: q, requested: count/pods=1, used: count/pods=1,limits.memory=1, limited: count/pods=1`, raises))
	assert.False(t, MayReject(`exceeded quota: q, requested: limits.memory=2Gi, used: limits.memory=0`, SeedEffect{Lowers: true}))
	assert.False(t, MayReject(`failed quota: q: must specify limits.cpu for: app`, raises), "raising removes no limit")
}

// The controller names the pod three times before the reason. Pod names have up to 63 bytes, quota names up to 253.
func TestRejectionIsJudgedByItsWholeText(t *testing.T) {
	for _, frame := range []string{
		`create Pod POD in StatefulSet SET failed error: pods "POD" is forbidden: exceeded quota: QUOTA, requested: limits.memory=2Gi,requests.memory=2Gi, used: limits.memory=0,requests.memory=0, limited: limits.memory=1Gi,requests.memory=1Gi`,
		`Error creating: pods "POD" is forbidden: exceeded quota: QUOTA, requested: requests.cpu=800m, used: requests.cpu=0, limited: requests.cpu=500m`,
	} {
		for pod := 10; pod <= 63; pod++ {
			for _, quota := range []string{"q", "compute-resources", strings.Repeat("q", 253)} {
				message := strings.NewReplacer("POD", strings.Repeat("p", pod), "SET", strings.Repeat("p", pod-2), "QUOTA", quota).Replace(frame)
				assert.True(t, MayReject(message, SeedEffect{Raises: true}), message)
			}
		}
	}
}

// The next attempt passes, or fails for the template as well.
func TestAnswersThatPassByThemselvesDoNotCount(t *testing.T) {
	for _, message := range []string{
		`Error creating: Operation cannot be fulfilled on resourcequotas "q": the object has been modified; please apply your changes to the latest version and try again`,
		`Error creating: Operation cannot be fulfilled on clusterresourcequotas.quota.openshift.io "q": the object has been modified; please apply your changes to the latest version and try again`,
		`create Pod kafka-0 in StatefulSet kafka failed error: The POST operation against Pod could not be completed at this time, please try again.`,
		`create Claim data-web-0 Pod web-0 in StatefulSet web failed error: persistentvolumeclaims "data-web-0" is forbidden: maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi`,
		`create Pod web-0 in StatefulSet web failed error: failed to create PVC data-web-0: persistentvolumeclaims "data-web-0" is forbidden: maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi`,
		`Error creating: admission webhook "validatepod.volcano.sh" denied the request: failed to create pod <shop/web-1> as the podgroup phase is Pending`,
		`Error creating: pods "web-1" is forbidden: status unknown for quota: q, resources: limits.cpu,limits.memory`,
		`Error creating: Internal error occurred: resource quota evaluation timed out`,
		`Error creating: Internal error occurred: admission plugin "X" failed to complete mutation in 13s`,
		`Error creating: etcdserver: leader changed`,
		`Error creating: the server is currently unable to handle the request (post pods)`,
		`Error creating: the server was unable to return a response in the time allotted, but may still be processing the request (post pods)`,
		`Error creating: Post "https://10.0.0.1:443/api/v1/namespaces/shop/pods": dial tcp 10.0.0.1:443: i/o timeout`,
		`Error creating: Post "https://10.0.0.1:443/api/v1/namespaces/shop/pods": read tcp 10.0.0.2:1->10.0.0.1:443: read: connection reset by peer`,
		`Error creating: Post "https://10.0.0.1:443/api/v1/namespaces/shop/pods": http2: client connection lost`,
		`Error creating: Post "https://10.0.0.1:443/api/v1/namespaces/shop/pods": unexpected EOF`,
		`Error creating: pods is forbidden: User "system:serviceaccount:kube-system:replicaset-controller" cannot create resource "pods" in API group "" in the namespace "shop"`,
		`Error creating: pods "web-1" is forbidden: exceeded quota: gpus, requested: requests.aliyun.com/gpu-memory=8, used: requests.aliyun.com/gpu-memory=8, limited: requests.aliyun.com/gpu-memory=8`,
	} {
		assert.False(t, MayReject(message, SeedEffect{Raises: true, Lowers: true}), message)
	}
	for _, message := range []string{
		`Error creating: admission webhook "policy" denied the request: memory above 1Gi, use less and please try again`,
		`Error creating: pods "web-1" is forbidden: maximum memory usage per Container is 1Gi, but limit is 2Gi`,
	} {
		assert.True(t, MayReject(message, SeedEffect{Raises: true}), message)
	}
}
