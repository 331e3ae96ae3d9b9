package certs

import (
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"
)

// put writes the serving Secret as another process does.
func put(t *testing.T, client kubernetes.Interface, data Data) {
	t.Helper()
	secrets := client.CoreV1().Secrets("attune-system")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "attune-system", Name: "attune-webhook-cert"}, Data: data}
	if _, err := secrets.Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		_, err = secrets.Update(t.Context(), secret, metav1.UpdateOptions{})
		require.NoError(t, err)
	}
}

// admits checks that the API server accepts what a replica serves now.
func admits(t *testing.T, client kubernetes.Interface, s *SelfSigned, now time.Time) {
	t.Helper()
	for _, bundle := range bundles(t, client) {
		require.NoError(t, accepts([]byte(bundle), s.served.Load().Leaf, now))
	}
}

func writes(client *fake.Clientset) (n int) {
	for _, action := range client.Actions() {
		if action.GetVerb() != "get" {
			n++
		}
	}
	return n
}

func TestAuthorityKeyIsNotInTheServingSecret(t *testing.T) {
	client, clock := fake.NewClientset(configurations()...), clocktesting.NewFakeClock(start)
	s := replica(client, clock)
	for range 3 {
		sync(t, s)
		serving, authority := secretOf(t, client, "attune-webhook-cert"), secretOf(t, client, "attune-webhook-ca")
		assert.ElementsMatch(t, []string{certKey, keyKey, bundleKey}, keysOf(serving.Data))
		assert.ElementsMatch(t, []string{authorityKey, bundleKey}, keysOf(authority.Data))
		assert.Equal(t, corev1.SecretTypeOpaque, authority.Type)
		clock.Step(61 * day)
	}
}

func keysOf(data Data) (keys []string) {
	for key := range data {
		keys = append(keys, key)
	}
	return keys
}

// TestUpgradeKeepsTheAuthority: a version that kept everything in one Secret is upgraded. The authority and the
// certificate stay, and the key leaves the Secret that the webhook reads once replicas of that version have ended.
func TestUpgradeKeepsTheAuthority(t *testing.T) {
	client, clock := fake.NewClientset(configurations()...), clocktesting.NewFakeClock(start)
	before := issue(t, start, Replace, nil)
	put(t, client, before)
	s := replica(client, clock)
	sync(t, s)
	assert.Equal(t, before, secretOf(t, client, "attune-webhook-cert").Data, "replicas of the earlier version need the key")
	assert.Equal(t, Data{bundleKey: before[bundleKey], authorityKey: before[authorityKey]}, secretOf(t, client, "attune-webhook-ca").Data)
	assert.Equal(t, leafOf(t, before), s.served.Load().Leaf)

	clock.Step(handover - time.Second)
	client.ClearActions()
	sync(t, s)
	assert.Zero(t, writes(client))
	clock.Step(time.Second)
	sync(t, s)
	assert.Equal(t, 1, writes(client))
	assert.Equal(t, Data{bundleKey: before[bundleKey], certKey: before[certKey], keyKey: before[keyKey]}, secretOf(t, client, "attune-webhook-cert").Data)
	assert.Equal(t, before, stored(t, client, clock.Now()))
	admits(t, client, s, clock.Now())
	client.ClearActions()
	sync(t, s)
	assert.Zero(t, writes(client))
}

// TestRollbackKeepsTheAuthorityTrusted: an earlier version finds no key, and replaces the authority. It writes the
// serving Secret alone. After the next upgrade, its authority signs, and both stay trusted.
func TestRollbackKeepsTheAuthorityTrusted(t *testing.T) {
	client, clock := fake.NewClientset(configurations()...), clocktesting.NewFakeClock(start)
	s := replica(client, clock)
	sync(t, s)
	first := stored(t, client, start)
	replaced := issue(t, start.Add(day), Replace, secretOf(t, client, "attune-webhook-cert").Data)
	assert.NoError(t, accepts(replaced[bundleKey], leafOf(t, first), start.Add(day)), "what is served stays trusted")
	put(t, client, replaced)

	clock.Step(day)
	for range 3 {
		sync(t, s)
		admits(t, client, s, clock.Now())
		assert.Equal(t, string(replaced[authorityKey]), string(stored(t, client, clock.Now())[authorityKey]))
		assert.Equal(t, string(replaced[bundleKey]), bundles(t, client)[0])
		clock.Step(handover)
	}
	assert.Equal(t, leafOf(t, replaced), s.served.Load().Leaf)
	assert.NotContains(t, secretOf(t, client, "attune-webhook-cert").Data, authorityKey)
}

// TestOneSecretIsDeleted: whichever it is, the API server trusts what is served at every moment.
func TestOneSecretIsDeleted(t *testing.T) {
	for _, name := range []string{"attune-webhook-cert", "attune-webhook-ca"} {
		t.Run(name, func(t *testing.T) {
			client, clock := fake.NewClientset(configurations()...), clocktesting.NewFakeClock(start)
			s := replica(client, clock)
			sync(t, s)
			before := stored(t, client, start)
			deleteSecrets(t, client, name)
			clock.Step(day)
			for range 2 {
				sync(t, s)
				admits(t, client, s, clock.Now())
				clock.Step(settle)
			}
			after := stored(t, client, clock.Now())
			assert.Equal(t, leafOf(t, after), s.served.Load().Leaf)
			assert.Equal(t, name == "attune-webhook-cert", string(before[authorityKey]) == string(after[authorityKey]))
		})
	}
}

// TestAWriteThatIsCutShort: the process ends between the writes of the two Secrets.
func TestAWriteThatIsCutShort(t *testing.T) {
	client, clock := fake.NewClientset(configurations()...), clocktesting.NewFakeClock(start)
	sync(t, replica(client, clock))
	old := secretOf(t, client, "attune-webhook-cert").Data
	clock.SetTime(start.Add(2434 * day))
	due := issue(t, clock.Now(), RenewLeaf, stored(t, client, start))
	renewed := issue(t, clock.Now(), RenewAuthority, due)
	authority := secretOf(t, client, "attune-webhook-ca")
	authority.Data, _ = split(renewed)
	_, err := client.CoreV1().Secrets("attune-system").Update(t.Context(), authority, metav1.UpdateOptions{})
	require.NoError(t, err)
	_, serving := split(due)
	put(t, client, serving)

	s := replica(client, clock)
	sync(t, s)
	assert.Equal(t, string(renewed[bundleKey]), string(secretOf(t, client, "attune-webhook-cert").Data[bundleKey]))
	assert.NotEqual(t, string(old[bundleKey]), bundles(t, client)[0])
	assert.Equal(t, renewed, stored(t, client, clock.Now()))
	admits(t, client, s, clock.Now())
}

func TestJoin(t *testing.T) {
	one, two := issue(t, start, Replace, nil), issue(t, start, Replace, nil)
	ofOne, servingOne := split(one)
	_, servingTwo := split(two)
	assert.Equal(t, one, join(start, ofOne, servingOne))
	assert.Equal(t, Data{}, join(start, nil, nil))
	assert.Equal(t, servingTwo, join(start, Data{}, servingTwo))
	assert.Equal(t, two, join(start, ofOne, two), "an earlier version wrote last")

	both := join(start, ofOne, servingTwo)
	assert.Len(t, trusted(start, both), 2, "cert-manager's authority, after a change of the provider")
	assert.NoError(t, accepts(both[bundleKey], leafOf(t, two), start))
	assert.Equal(t, Keep, PlanFor(start, both, names).Action)
	assert.Equal(t, string(one[authorityKey]), string(both[authorityKey]))

	broken := maps.Clone(ofOne)
	broken[bundleKey] = []byte("no newline")
	joined := join(start, broken, servingTwo)
	assert.Len(t, trusted(start, joined), 1)
	assert.Equal(t, Replace, PlanFor(start, joined, names).Action)
	assert.Equal(t, "no newline", string(broken[bundleKey]), "what was passed in is not changed")

	_, late := split(one)
	assert.Equal(t, string(two[bundleKey]), string(join(start.Add(3651*day), Data{bundleKey: two[bundleKey], authorityKey: two[authorityKey]}, late)[bundleKey]), "an expired authority is not added")
}
