package azure

const (
	ServicePrincipalAuthKey = "azureServicePrincipal"

	ServicePrincipalTenantIDKey                  = "azureServicePrincipalTenantId"
	ServicePrincipalClientIDKey                  = "azureServicePrincipalClientId"
	ServicePrincipalCloudKey                     = "azureServicePrincipalCloud"
	ServicePrincipalActiveDirectoryEndpointKey   = "azureServicePrincipalActiveDirectoryEndpoint"
	ServicePrincipalClientSecretKey              = "azureServicePrincipalClientSecret"
	ServicePrincipalClientCertificateKey         = "azureServicePrincipalClientCertificate"
	ServicePrincipalClientCertificatePasswordKey = "azureServicePrincipalClientCertificatePassword"
)
